//! Sources that misbehave.

use super::*;

/// A blob of this many bytes, which takes several segments.
const LEN: usize = 1_000_000;

type Answered = Result<Answer, SourceError>;

/// Downloads from a source that follows a script, and checks what came.
async fn survives(what: &str, script: impl FnMut(usize, &Range<u64>) -> Answered + Send + 'static) -> Arc<Fake> {
    let contents = contents(LEN, 3);
    let source = Fake::scripted("nas", &contents, script);
    check(what, &contents, &[&source]).await;
    source
}

/// Downloads from a source that follows a script, and returns the error and what is left on the disk.
async fn fails(
    script: impl FnMut(usize, &Range<u64>) -> Answered + Send + 'static,
) -> (String, Vec<String>, Arc<Fake>) {
    let contents = contents(LEN, 3);
    let source = Fake::scripted("nas", &contents, script);
    let home = Home::new();
    let error =
        run(&home.downloads(RealDisk, config()), wanted(&contents, &[&source])).await.expect_err("it cannot be");
    (error.to_string(), home.files(), source)
}

fn busy(retry_after: Duration) -> SourceError {
    SourceError::Busy { host: "nas".to_owned(), retry_after: Some(retry_after) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_at_random() {
    let mut random = Random::new(5);
    let source = survives("broken", move |_, asked| {
        let len = asked.end - asked.start;
        let sent = asked.start..asked.start + random.below(len + len / 4 + 2).min(len);
        let then = if random.below(2) == 0 { Then::Break } else { Then::End };
        Ok(Answer { sent, then, ..Answer::good(asked) })
    })
    .await;
    assert!(source.opened() > 12, "it did break: {} requests", source.opened());
    assert_eq!(source.sent_bytes(), LEN as u64, "and no byte was fetched twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_ignores_ranges() {
    let source =
        survives("ignored", |_, asked| Ok(Answer { offset: 0, sent: 0..LEN as u64, ..Answer::good(asked) })).await;
    assert!(source.sent_bytes() < 2 * LEN as u64, "it is asked for everything once: {} bytes", source.sent_bytes());
    let mut random = Random::new(9);
    survives("ignored, and broken", move |_, asked| {
        let sent = 0..random.below(2 * LEN as u64).min(LEN as u64);
        Ok(Answer { offset: 0, sent, then: Then::Break, ..Answer::good(asked) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_begin_elsewhere_or_end_elsewhere() {
    survives("a little before", |_, asked| {
        let offset = asked.start.saturating_sub(1000).max(1).min(asked.start);
        Ok(Answer { offset, sent: offset..asked.end, ..Answer::good(asked) })
    })
    .await;
    survives("once one byte late", |number, asked| {
        let late = u64::from(number == 0);
        Ok(Answer { offset: asked.start + late, sent: asked.start + late..asked.end, ..Answer::good(asked) })
    })
    .await;
    survives("too long", |_, asked| Ok(Answer { sent: asked.start..LEN as u64, ..Answer::good(asked) })).await;
    survives("too short, now and then", |number, asked| {
        let short = if number % 3 == 0 { (asked.end - asked.start) / 2 } else { 0 };
        Ok(Answer { sent: asked.start..asked.end - short, ..Answer::good(asked) })
    })
    .await;
    survives("in large chunks", |_, asked| Ok(Answer { chunk: LEN, ..Answer::good(asked) })).await;
    survives("in tiny chunks", |_, asked| Ok(Answer { chunk: 999, ..Answer::good(asked) })).await;

    let late = |_, asked: &Range<u64>| {
        Ok(Answer { offset: asked.start + 1, sent: asked.start + 1..asked.end, ..Answer::good(asked) })
    };
    let (error, files, source) = fails(late).await;
    assert!(
        error.starts_with("nas: answered from byte ")
            && error.ends_with(", at 0 of 1000 kB, after 6 tries. Nothing is lost."),
        "{error}"
    );
    assert!(source.opened() <= 24, "tries are bounded: {}", source.opened());
    assert_eq!(files, ["partials/blob"], "nothing is ready");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_lies_about_the_size() {
    // Fewer bytes than promised: the end never comes.
    let (error, files, _) = fails(|_, asked| {
        let have = 900_000;
        Ok(Answer { sent: asked.start.min(have)..asked.end.min(have), ..Answer::good(asked) })
    })
    .await;
    assert!(error.contains("dropped 6 times at 900 of 1000 kB") && error.contains("ended at byte 9"), "{error}");
    assert_eq!(files, ["partials/blob", "partials/blob.journal"], "what came is kept");

    // More bytes than promised: what was promised is not the blob.
    let contents = contents(LEN, 3);
    let source = Fake::good("nas", &contents);
    let home = Home::new();
    let promised = FetchBlob { size_bytes: 999_000, ..wanted(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), promised).await.expect_err("it is cut off");
    assert!(matches!(&error, DownloadError::Mismatch { want, .. } if *want == Digest::of(&contents)), "{error}");
    assert_eq!(home.files(), [""; 0], "nothing is kept");

    let promised = FetchBlob { size_bytes: 0, ..wanted(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), promised).await.expect_err("it is not nothing");
    assert!(matches!(&error, DownloadError::Mismatch { got, .. } if *got == Digest::of(b"")), "{error}");
    let promised = FetchBlob { size_bytes: u64::MAX, ..wanted(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), promised).await.expect_err("no disk is so large");
    assert!(matches!(&error, DownloadError::NoSpace { need_bytes: u64::MAX, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_not_a_failure_until_there_is_nothing_else() {
    let source = survives("silent now and then", |number, asked| {
        let sent = asked.start..asked.start + (asked.end - asked.start) / 2;
        let silent = Answer { sent, then: Then::Hang, ..Answer::good(asked) };
        Ok(if number % 4 == 1 { silent } else { Answer::good(asked) })
    })
    .await;
    assert_eq!(source.sent_bytes(), LEN as u64, "no byte was fetched twice");
    let (error, _, source) = fails(|_, asked| Ok(Answer { sent: 0..0, then: Then::Hang, ..Answer::good(asked) })).await;
    assert!(error.starts_with("Nothing came for 0.15 s, 4 times, at 0 of 1000 kB"), "{error}");
    assert!(source.opened() <= 40, "tries are bounded: {}", source.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_never_answers_is_left_alone() {
    let contents = contents(LEN, 3);
    let silent =
        Fake::scripted("nas", &contents, |_, asked| Ok(Answer { sent: 0..0, then: Then::Hang, ..Answer::good(asked) }));
    let other = Fake::scripted("hub", &contents, |_, asked| Ok(Answer { pace: ms(20), ..Answer::good(asked) }));
    check("silent", &contents, &[&silent, &other]).await;
    assert!(silent.opened() <= 10, "each stream waits for it once, and one now and then: {}", silent.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_asks_to_wait_is_left_alone_for_as_long() {
    let (started, asked_at) = (std::time::Instant::now(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let noted = Arc::clone(&asked_at);
    survives("busy", move |number, asked| {
        noted.lock().unwrap().push(started.elapsed());
        if number == 0 { Err(busy(ms(300))) } else { Ok(Answer::good(asked)) }
    })
    .await;
    let asked_at = asked_at.lock().unwrap().clone();
    // Streams that were on their way when it said so are not called back.
    let after = asked_at.iter().filter(|at| **at > asked_at[0] + ms(100));
    assert!(after.clone().all(|at| *at >= asked_at[0] + ms(300)), "it was asked too soon: {asked_at:?}");
    assert!(after.count() > 0, "it was asked again: {asked_at:?}");

    let (error, _, source) = fails(|_, _| Err(busy(Duration::from_secs(3600)))).await;
    assert_eq!(error, "nas asks to wait for 3600 s", "an hour is not waited for");
    assert!(source.opened() <= 4, "it is asked once by each stream: {}", source.opened());
    let (error, _, source) = fails(|_, _| Err(busy(ms(5)))).await;
    assert!(error.contains("after 6 tries") && error.contains("asks to wait"), "{error}");
    assert!(source.opened() <= 24, "tries are bounded: {}", source.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_stream_does_not_set_the_pace() {
    let started = std::time::Instant::now();
    // At its pace the first segment alone would take twelve seconds.
    survives("slow", |number, asked| {
        let (chunk, pace) = if number == 0 { (100, ms(10)) } else { (16 << 10, ms(1)) };
        Ok(Answer { chunk, pace, ..Answer::good(asked) })
    })
    .await;
    assert!(started.elapsed() < Duration::from_secs(3), "it took {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_send_what_one_alone_would_take_long_for() {
    let contents = contents(6 * LEN, 3);
    let steady = |host: &str| {
        Fake::scripted(host, &contents, |_, asked| Ok(Answer { chunk: 4 << 10, pace: ms(10), ..Answer::good(asked) }))
    };
    let (near, far) = (steady("near"), steady("far"));
    check("two of a kind", &contents, &[&near, &far]).await;
    let (first, second) = (near.sent_bytes(), far.sent_bytes());
    assert!(first.min(second) * 5 > contents.len() as u64, "both did much of it: {first} and {second} bytes");
    assert_eq!(first + second, contents.len() as u64, "and nothing twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_it_is_found_and_whoever_refuses_is_named() {
    let contents = contents(LEN, 3);
    let absent = Fake::scripted("nas", &contents, |_, _| Err(SourceError::Absent { host: "nas".to_owned() }));
    let down = Fake::scripted("peer", &contents, |_, _| Err(broken("peer")));
    let good = Fake::good("hub", &contents);
    check("the third has it", &contents, &[&absent, &down, &good]).await;
    let first = Fake::good("near", &contents);
    check("the first has it", &contents, &[&first, &good]).await;
    assert_eq!(first.sent_bytes(), LEN as u64, "the second is spared");

    let home = Home::new();
    let refusing = Fake::scripted("hub", &contents, |_, _| {
        Err(SourceError::Refused { host: "hub".to_owned(), status: Some(401), reason: "sign in".to_owned() })
    });
    let error = run(&home.downloads(RealDisk, config()), wanted(&contents, &[&absent, &refusing])).await;
    assert_eq!(error.expect_err("nobody gives it").to_string(), "hub refused: sign in", "the one that has it");
    let error = run(&home.downloads(RealDisk, config()), wanted(&contents, &[])).await.expect_err("there is nobody");
    assert!(matches!(error, DownloadError::NoSource(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bytes_are_never_ready_and_their_sender_is_found() {
    let right = contents(LEN, 3);
    let mut damaged = right.clone();
    damaged[700_000] ^= 1;
    let home = Home::new();
    let downloads = home.downloads(RealDisk, config());
    let liar = Fake::good("liar", &damaged);
    let error = run(&downloads, wanted(&right, &[&liar])).await.expect_err("it is wrong");
    let said = format!("want {}, got {} (from liar)", Digest::of(&right), Digest::of(&damaged));
    assert!(error.to_string().ends_with(&said), "{error}");
    assert_eq!(home.files(), [""; 0], "nothing is kept");

    // All of it came from one source, so it was that one.
    let good = Fake::good("good", &right);
    let ready = run(&downloads, wanted(&right, &[&liar, &good])).await.expect("the other has it");
    assert_eq!(ready.wrong_hosts, ["liar"], "the only one who can have been");
    assert!(std::fs::read(&ready.path).unwrap() == right, "the right bytes");

    // Both sent a part: the one that fails half-way, and the liar.
    let home = Home::new();
    let downloads = home.downloads(RealDisk, config());
    let half = Fake::scripted(
        "half",
        &right,
        |number, asked| {
            if number < 3 { Ok(Answer::good(asked)) } else { Err(broken("half")) }
        },
    );
    let liar = Fake::good("liar", &damaged);
    let good = Fake::good("good", &right);
    let ready = run(&downloads, wanted(&right, &[&half, &liar, &good])).await.expect("the last has it");
    assert!(half.sent_bytes() > 0 && liar.sent_bytes() > 0, "both took part");
    assert_eq!(ready.wrong_hosts, ["liar"], "whose share differs from what was right");
    assert_eq!(good.sent_bytes(), LEN as u64, "the last was asked for all of it");
    assert_eq!(home.files(), ["ready/blob"], "one file");
}
