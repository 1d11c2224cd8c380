//! Search for fifty Chinese words of two characters: each is found in the sentences that contain it, and in no other.

use super::*;

/// Words, each with a sentence that contains its characters nowhere else.
const WORDS: [(&str, &str); 50] = [
    ("模型", "请下载最新的模型文件"),
    ("内存", "电脑的内存不够用"),
    ("硬盘", "换一块更大的硬盘吧"),
    ("显卡", "这张显卡支持吗"),
    ("速度", "下载速度太慢了"),
    ("缓存", "清空缓存以后再试"),
    ("设置", "打开设置页面"),
    ("语言", "界面语言改成英文"),
    ("翻译", "帮我翻译这段话"),
    ("总结", "总结一下会议内容"),
    ("代码", "解释这段代码的意思"),
    ("错误", "程序报告了一个错误"),
    ("日志", "把日志发给我看"),
    ("网络", "网络连接断开了"),
    ("代理", "公司要求使用代理"),
    ("安全", "这样做安全吗"),
    ("密码", "忘记密码怎么办"),
    ("用户", "用户喜欢简单"),
    ("历史", "讲讲唐朝的历史"),
    ("地理", "欧洲地理概况"),
    ("数学", "一道数学题"),
    ("物理", "量子物理入门"),
    ("化学", "有机化学反应"),
    ("生物", "海洋生物种类"),
    ("音乐", "推荐几首音乐"),
    ("电影", "周末看什么电影"),
    ("小说", "写一篇科幻小说"),
    ("诗歌", "用诗歌描述秋天"),
    ("旅行", "计划去云南旅行"),
    ("美食", "成都有哪些美食"),
    ("早餐", "健康的早餐食谱"),
    ("咖啡", "手冲咖啡的水温"),
    ("茶叶", "绿色茶叶怎么保管"),
    ("天气", "明天天气如何"),
    ("春天", "春天种什么花"),
    ("朋友", "送给朋友的礼品"),
    ("家庭", "家庭预算表格"),
    ("孩子", "陪孩子读书"),
    ("老师", "感谢老师的信"),
    ("学校", "附近的学校排名"),
    ("医生", "看医生之前准备"),
    ("睡眠", "改善睡眠质量"),
    ("运动", "每天运动半小时"),
    ("足球", "昨晚的足球比赛"),
    ("汽车", "新能源汽车补贴"),
    ("火车", "订一张火车票"),
    ("飞机", "飞机晚点赔偿"),
    ("工作", "远程工作的利弊"),
    ("面试", "模拟一次面试"),
    ("合同", "检查这份合同条款"),
];

#[test]
fn two_character_words_are_found() {
    let home = Home::new();
    home.create("a", 1);
    let body: Vec<ChatMessage> = WORDS.iter().map(|(_, sentence)| message("user", sentence, 2)).collect();
    home.chats.add("a", None, &body, 3).expect("written");
    for (word, sentence) in WORDS {
        let expected: Vec<&str> =
            WORDS.iter().rev().map(|(_, sentence)| *sentence).filter(|sentence| sentence.contains(word)).collect();
        assert!(expected.contains(&sentence), "{word} is in its own sentence");
        let hits = home.chats.search(word, 100).expect("a search");
        let found: Vec<&str> = hits.iter().map(|hit| hit.snippet.as_str()).collect();
        assert_eq!(found, expected, "sentences that have {word}");
        let is_word = |snippet: &str, [begin, end]: [u32; 2]| {
            snippet.encode_utf16().take(end as usize).skip(begin as usize).eq(word.encode_utf16())
        };
        let marked = hits.iter().all(|hit| hit.ranges.iter().all(|range| is_word(&hit.snippet, *range)));
        assert!(marked && !hits[0].ranges.is_empty(), "{word} is marked");
    }
}

#[test]
fn shorter_and_longer_runs_match_exactly() {
    let home = Home::new();
    home.create("a", 1);
    for sentence in ["人工智能改变世界", "智能手机", "人工作业", "手工"] {
        home.add("a", None, "user", sentence, 2);
    }
    let check = |search: &str, expected: &[&str]| {
        let hits = home.chats.search(search, 10).expect("a search");
        let mut found: Vec<&str> = hits.iter().map(|hit| hit.snippet.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{search}");
    };
    check("人工智能", &["人工智能改变世界"]);
    check("工", &["人工作业", "人工智能改变世界", "手工"]);
    check("智能 世界", &["人工智能改变世界"]);
    check("能人", &[]);
}
