//! The texts of the tray, the dialogs and the notifications, in each language. The texts of the page are in
//! `ui/src/i18n`.
//!
//! A text can have placeholders such as `{model}`, which [`fill`] replaces.

/// The languages of the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Chinese,
}

impl Language {
    /// Returns the language for a tag such as `zh-CN` or `de_DE.UTF-8`; English for unsupported languages.
    pub(crate) fn of(tag: &str) -> Self {
        let first = tag.split(['-', '_', '.']).next().unwrap_or_default();
        if first.eq_ignore_ascii_case("zh") { Self::Chinese } else { Self::English }
    }

    pub(crate) fn words(self) -> &'static Words {
        match self {
            Self::English => &ENGLISH,
            Self::Chinese => &CHINESE,
        }
    }
}

/// Replaces the placeholders of a text by values.
pub(crate) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, after) = after.split_once('}').expect("placeholders are closed");
        let value = values.iter().find(|(placeholder, _)| *placeholder == name);
        filled.push_str(value.expect("each placeholder has a value").1);
        rest = after;
    }
    filled + rest
}

/// All texts of one language.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) starting: &'static str,
    pub(crate) ready: &'static str,
    pub(crate) ready_with_one: &'static str,
    pub(crate) ready_with_many: &'static str,
    pub(crate) unavailable: &'static str,
    pub(crate) open: &'static str,
    pub(crate) new_chat: &'static str,
    pub(crate) no_downloads: &'static str,
    pub(crate) downloads: &'static str,
    pub(crate) time_left: &'static str,
    pub(crate) pause: &'static str,
    pub(crate) resume: &'static str,
    pub(crate) waiting: &'static str,
    pub(crate) paused: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) pause_all: &'static str,
    pub(crate) resume_all: &'static str,
    pub(crate) open_list: &'static str,
    pub(crate) models: &'static str,
    pub(crate) no_models: &'static str,
    pub(crate) unload: &'static str,
    pub(crate) keep_hour: &'static str,
    pub(crate) keep: &'static str,
    pub(crate) server: &'static str,
    pub(crate) copy_address: &'static str,
    pub(crate) open_server: &'static str,
    pub(crate) cache: &'static str,
    pub(crate) cache_has: &'static str,
    pub(crate) ram: &'static str,
    pub(crate) ssd: &'static str,
    pub(crate) remote: &'static str,
    pub(crate) autostart: &'static str,
    pub(crate) close_to_tray: &'static str,
    pub(crate) settings: &'static str,
    pub(crate) logs: &'static str,
    pub(crate) quit: &'static str,
    pub(crate) quit_and_pause: &'static str,
    pub(crate) seconds: &'static str,
    pub(crate) minutes: &'static str,
    pub(crate) hours: &'static str,
    pub(crate) downloaded: &'static str,
    pub(crate) downloaded_text: &'static str,
    pub(crate) download_failed: &'static str,
    pub(crate) close_title: &'static str,
    pub(crate) close_question: &'static str,
    pub(crate) close_keep: &'static str,
    pub(crate) close_quit: &'static str,
    pub(crate) no_window: &'static str,
}

const ENGLISH: Words = Words {
    starting: "Starting…",
    ready: "Ready",
    ready_with_one: "Ready – {model} ({size})",
    ready_with_many: "Ready – {count} models ({size})",
    unavailable: "Not running: {reason}",
    open: "Open Cairn",
    new_chat: "New chat",
    no_downloads: "No downloads",
    downloads: "Downloads: {parts}",
    time_left: "{time} left",
    pause: "Pause {model} – {parts}",
    resume: "Resume {model} – {parts}",
    waiting: "waiting",
    paused: "paused at {percent}",
    failed: "failed at {percent}",
    pause_all: "Pause all",
    resume_all: "Resume all",
    open_list: "Show downloads",
    models: "Loaded models: {count}",
    no_models: "No model is loaded",
    unload: "Unload",
    keep_hour: "Keep for 1 hour",
    keep: "Keep until quit",
    server: "Server: {address}",
    copy_address: "Copy address",
    open_server: "Show server",
    cache: "Cache tiers",
    cache_has: "Cache: {parts}",
    ram: "RAM",
    ssd: "SSD",
    remote: "remote",
    autostart: "Start at login",
    close_to_tray: "Closing the window keeps Cairn running",
    settings: "Settings…",
    logs: "Show logs",
    quit: "Quit (stops the server)",
    quit_and_pause: "Quit (stops the server and {count} downloads; they resume)",
    seconds: "{count} s",
    minutes: "{count} min",
    hours: "{count} h",
    downloaded: "{model} downloaded",
    downloaded_text: "The model is ready to use.",
    download_failed: "Download of {model} failed",
    close_title: "Keep Cairn running?",
    close_question: "Downloads and answers continue, and other apps can use the server. Cairn stays in the tray. Without \
                     a tray, start Cairn again to open the window. You can change this in Settings.",
    close_keep: "Keep running",
    close_quit: "Quit",
    no_window: "Cannot open the window",
};

const CHINESE: Words = Words {
    starting: "正在启动…",
    ready: "就绪",
    ready_with_one: "就绪 – {model}（{size}）",
    ready_with_many: "就绪 – {count} 个模型（{size}）",
    unavailable: "未运行：{reason}",
    open: "打开 Cairn",
    new_chat: "新对话",
    no_downloads: "没有下载",
    downloads: "下载：{parts}",
    time_left: "剩余 {time}",
    pause: "暂停 {model} – {parts}",
    resume: "继续 {model} – {parts}",
    waiting: "等待中",
    paused: "已暂停于 {percent}",
    failed: "失败于 {percent}",
    pause_all: "全部暂停",
    resume_all: "全部继续",
    open_list: "查看下载",
    models: "已加载模型：{count}",
    no_models: "没有加载模型",
    unload: "卸载",
    keep_hour: "保留 1 小时",
    keep: "保留到退出",
    server: "服务器：{address}",
    copy_address: "复制地址",
    open_server: "查看服务器",
    cache: "缓存层级",
    cache_has: "缓存：{parts}",
    ram: "内存",
    ssd: "固态硬盘",
    remote: "远程",
    autostart: "登录时启动",
    close_to_tray: "关闭窗口后继续运行",
    settings: "设置…",
    logs: "查看日志",
    quit: "退出（停止服务器）",
    quit_and_pause: "退出（停止服务器和 {count} 个下载，之后会继续）",
    seconds: "{count} 秒",
    minutes: "{count} 分钟",
    hours: "{count} 小时",
    downloaded: "{model} 已就绪",
    downloaded_text: "现在可以使用这个模型。",
    download_failed: "{model} 需要您处理",
    close_title: "让 Cairn 继续运行？",
    close_question: "下载和回答会继续，其他应用也能使用服务器。Cairn 会留在托盘中；如果没有托盘，再次启动即可看到窗口。可以在设置中更改。",
    close_keep: "继续运行",
    close_quit: "退出",
    no_window: "无法打开窗口",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_tags_select_languages() {
        let check = |tag: &str, expected| assert_eq!(Language::of(tag), expected, "{tag:?}");
        check("zh-CN", Language::Chinese);
        check("zh", Language::Chinese);
        check("ZH_cn.UTF-8", Language::Chinese);
        check("en-GB", Language::English);
        check("de_DE.UTF-8", Language::English);
        check("C", Language::English);
        check("", Language::English);
    }

    #[test]
    fn placeholders_are_replaced_once() {
        assert_eq!(fill("a {x} b {y}", &[("y", "{2}"), ("x", "1")]), "a 1 b {2}", "values are not parsed again");
        assert_eq!(fill("none", &[]), "none", "a text without placeholders");
    }

    /// The placeholders of each text, in order of the texts.
    fn placeholders(words: &Words) -> Vec<Vec<String>> {
        // `Debug` prints every field with its text.
        let texts = format!("{words:#?}");
        let of = |line: &str| {
            let mut names: Vec<String> =
                line.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect();
            names.sort();
            names
        };
        texts.lines().skip(1).map(of).collect()
    }

    #[test]
    fn languages_have_same_placeholders() {
        let (english, chinese) = (placeholders(&ENGLISH), placeholders(&CHINESE));
        assert!(english.iter().flatten().count() > 10, "placeholders are found: {english:?}");
        assert_eq!(english, chinese, "each text has the same placeholders in both languages");
    }
}
