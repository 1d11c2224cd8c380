//! Notices of lists.

use super::*;

#[test]
fn repair_notice_names_the_damaged_file_while_it_exists() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let set_aside = folder.path().join("chats.damaged.5.sqlite");
    std::fs::write(&set_aside, "damaged").expect("a file");
    let reason = "a page is damaged".to_owned();
    let repair = Repair { reason, set_aside: set_aside.clone(), chats: 2, messages: 3, used_backup: false };
    let describe: DescribeError = |error| {
        let mut body = ErrorBody::text(error.to_string());
        if let Error::Repaired(repair) = error {
            body.params.insert("path".to_owned(), repair.set_aside.display().to_string());
            body.params.insert("chats".to_owned(), repair.chats.to_string());
        }
        body
    };
    let path = set_aside.display().to_string();
    let notice = repair_notice(repair.clone(), describe);
    assert!(notice.error.ends_with(&format!("the damaged file is kept as {path}")), "{notice}");
    assert_eq!(notice.params.get("path"), Some(&path), "the path");

    std::fs::remove_file(&set_aside).expect("an erasure removes it");
    let notice = repair_notice(repair, describe);
    assert!(notice.error.ends_with("it now has 2 chats with 3 messages"), "{notice}");
    assert_eq!(notice.params.keys().collect::<Vec<_>>(), ["chats"], "no path");
}
