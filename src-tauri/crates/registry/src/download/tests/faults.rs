//! Downloads from misbehaving sources.

use super::*;

/// Size of the blob; several segments.
const LEN: usize = 1_000_000;

type ScriptResult = Result<FakeResponse, SourceError>;

/// Downloads from a scripted source and checks the result.
async fn check_script(
    what: &str,
    script: impl FnMut(usize, &Range<u64>) -> ScriptResult + Send + 'static,
) -> Arc<FakeSource> {
    let contents = contents(LEN, 3);
    let source = FakeSource::scripted("nas", &contents, script);
    check(what, &contents, &[&source]).await;
    source
}

/// Downloads from a scripted source that must fail. Returns the error, the files and the source.
async fn failing_script(
    script: impl FnMut(usize, &Range<u64>) -> ScriptResult + Send + 'static,
) -> (String, Vec<String>, Arc<FakeSource>) {
    let contents = contents(LEN, 3);
    let source = FakeSource::scripted("nas", &contents, script);
    let home = Home::new();
    let error = run(&home.downloads(RealDisk, config()), blob_request(&contents, &[&source]))
        .await
        .expect_err("the download fails");
    (error.to_string(), home.files(), source)
}

fn busy(retry_after: Duration) -> SourceError {
    SourceError::Busy { host: "nas".to_owned(), retry_after: Some(retry_after) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_survives_random_disconnects() {
    let mut random = Random::new(5);
    let source = check_script("broken", move |_, requested| {
        let len = requested.end - requested.start;
        let sent = requested.start..requested.start + random.below(len + len / 4 + 2).min(len);
        let ending = if random.below(2) == 0 { Ending::Break } else { Ending::End };
        Ok(FakeResponse { sent, ending, ..FakeResponse::good(requested) })
    })
    .await;
    assert!(source.opened() > 12, "connections were closed: {} requests", source.opened());
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte is sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_from_source_without_ranges_completes() {
    let source = check_script("ignored", |_, requested| {
        Ok(FakeResponse { offset: 0, sent: 0..LEN as u64, ..FakeResponse::good(requested) })
    })
    .await;
    assert!(source.sent_bytes() < 2 * LEN as u64, "the blob is sent about once: {} bytes", source.sent_bytes());
    let mut random = Random::new(9);
    check_script("ignored, and broken", move |_, requested| {
        let sent = 0..random.below(2 * LEN as u64).min(LEN as u64);
        Ok(FakeResponse { offset: 0, sent, ending: Ending::Break, ..FakeResponse::good(requested) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_with_wrong_ranges_are_handled() {
    check_script("a little before", |_, requested| {
        let offset = requested.start.saturating_sub(1000).max(1).min(requested.start);
        Ok(FakeResponse { offset, sent: offset..requested.end, ..FakeResponse::good(requested) })
    })
    .await;
    check_script("once one byte late", |number, requested| {
        let late = u64::from(number == 0);
        Ok(FakeResponse {
            offset: requested.start + late,
            sent: requested.start + late..requested.end,
            ..FakeResponse::good(requested)
        })
    })
    .await;
    check_script("too long", |_, requested| {
        Ok(FakeResponse { sent: requested.start..LEN as u64, ..FakeResponse::good(requested) })
    })
    .await;
    check_script("too short, now and then", |number, requested| {
        let short = if number % 3 == 0 { (requested.end - requested.start) / 2 } else { 0 };
        Ok(FakeResponse { sent: requested.start..requested.end - short, ..FakeResponse::good(requested) })
    })
    .await;
    check_script("in large chunks", |_, requested| Ok(FakeResponse { chunk: LEN, ..FakeResponse::good(requested) }))
        .await;
    check_script("in tiny chunks", |_, requested| Ok(FakeResponse { chunk: 999, ..FakeResponse::good(requested) }))
        .await;

    let late = |_, requested: &Range<u64>| {
        Ok(FakeResponse {
            offset: requested.start + 1,
            sent: requested.start + 1..requested.end,
            ..FakeResponse::good(requested)
        })
    };
    let (error, files, source) = failing_script(late).await;
    assert!(
        error.starts_with("nas: sent bytes from ")
            && error.ends_with(", at 0 of 1000 kB, after 6 attempts. Nothing is lost."),
        "{error}"
    );
    assert!(source.opened() <= 24, "attempts are limited: {}", source.opened());
    assert_eq!(files, ["partials/blob"], "no blob is staged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_size_in_manifest_is_an_error() {
    // The blob is shorter than its manifest's size.
    let (error, files, _) = failing_script(|_, requested| {
        let have = 900_000;
        Ok(FakeResponse { sent: requested.start.min(have)..requested.end.min(have), ..FakeResponse::good(requested) })
    })
    .await;
    assert!(error.contains("dropped 6 times at 900 of 1000 kB") && error.contains("ended at byte 9"), "{error}");
    assert_eq!(files, ["partials/blob", "partials/blob.journal"], "partial data is kept");

    // The blob is longer than its manifest's size.
    let contents = contents(LEN, 3);
    let source = FakeSource::good("nas", &contents);
    let home = Home::new();
    let request = BlobRequest { size_bytes: 999_000, ..blob_request(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), request).await.expect_err("the size is too small");
    assert!(matches!(&error, DownloadError::Mismatch { want, .. } if *want == Digest::of(&contents)), "{error}");
    assert_eq!(home.files(), [""; 0], "no files are left");

    let request = BlobRequest { size_bytes: 0, ..blob_request(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), request).await.expect_err("the size is 0");
    assert!(matches!(&error, DownloadError::Mismatch { got, .. } if *got == Digest::of(b"")), "{error}");
    let request = BlobRequest { size_bytes: u64::MAX, ..blob_request(&contents, &[&source]) };
    let error = run(&home.downloads(RealDisk, config()), request).await.expect_err("the size is too large");
    assert!(matches!(&error, DownloadError::NoSpace { need_bytes: u64::MAX, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalls_fail_download_only_without_other_data() {
    let source = check_script("silent now and then", |number, requested| {
        let sent = requested.start..requested.start + (requested.end - requested.start) / 2;
        let silent = FakeResponse { sent, ending: Ending::Hang, ..FakeResponse::good(requested) };
        Ok(if number % 4 == 1 { silent } else { FakeResponse::good(requested) })
    })
    .await;
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte is sent once");
    let (error, _, source) = failing_script(|_, requested| {
        Ok(FakeResponse { sent: 0..0, ending: Ending::Hang, ..FakeResponse::good(requested) })
    })
    .await;
    assert!(error.starts_with("No data received for 0.15 s, 4 times, at 0 of 1000 kB"), "{error}");
    assert!(source.opened() <= 40, "attempts are limited: {}", source.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_source_is_avoided() {
    let contents = contents(LEN, 3);
    let silent = FakeSource::scripted("nas", &contents, |_, requested| {
        Ok(FakeResponse { sent: 0..0, ending: Ending::Hang, ..FakeResponse::good(requested) })
    });
    let other = FakeSource::scripted("hub", &contents, |_, requested| {
        Ok(FakeResponse { pace: ms(20), ..FakeResponse::good(requested) })
    });
    check("silent", &contents, &[&silent, &other]).await;
    assert!(silent.opened() <= 10, "few requests to the silent source: {}", silent.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_of_source_is_respected() {
    let (started, asked_at) = (std::time::Instant::now(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let noted = Arc::clone(&asked_at);
    check_script("busy", move |number, requested| {
        noted.lock().unwrap().push(started.elapsed());
        if number == 0 { Err(busy(ms(300))) } else { Ok(FakeResponse::good(requested)) }
    })
    .await;
    let asked_at = asked_at.lock().unwrap().clone();
    // Requests that were sent before the first response are not cancelled.
    let after = asked_at.iter().filter(|at| **at > asked_at[0] + ms(100));
    assert!(after.clone().all(|at| *at >= asked_at[0] + ms(300)), "a request was sent too early: {asked_at:?}");
    assert!(after.count() > 0, "no request after the delay: {asked_at:?}");

    let (error, _, source) = failing_script(|_, _| Err(busy(Duration::from_secs(3600)))).await;
    assert_eq!(error, "nas asks to wait for 3600 s", "a delay of an hour is an error");
    assert!(source.opened() <= 4, "one request per stream: {}", source.opened());
    let (error, _, source) = failing_script(|_, _| Err(busy(ms(5)))).await;
    assert!(error.contains("after 6 attempts") && error.contains("asks to wait"), "{error}");
    assert!(source.opened() <= 24, "attempts are limited: {}", source.opened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_stream_does_not_delay_download() {
    let started = std::time::Instant::now();
    // At this speed the first segment alone would take twelve seconds.
    check_script("slow", |number, requested| {
        let (chunk, pace) = if number == 0 { (100, ms(10)) } else { (16 << 10, ms(1)) };
        Ok(FakeResponse { chunk, pace, ..FakeResponse::good(requested) })
    })
    .await;
    assert!(started.elapsed() < Duration::from_secs(3), "it took {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_uses_second_source_when_first_is_slow() {
    let contents = contents(6 * LEN, 3);
    let steady = |host: &str| {
        FakeSource::scripted(host, &contents, |_, requested| {
            Ok(FakeResponse { chunk: 4 << 10, pace: ms(10), ..FakeResponse::good(requested) })
        })
    };
    let (near, far) = (steady("near"), steady("far"));
    check("two of a kind", &contents, &[&near, &far]).await;
    let (first, second) = (near.sent_bytes(), far.sent_bytes());
    assert!(first.min(second) * 5 > contents.len() as u64, "both sources contribute: {first} and {second} bytes");
    assert_eq!(first + second, contents.len() as u64, "each byte is sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_are_tried_in_order_and_refusal_is_reported() {
    let contents = contents(LEN, 3);
    let absent = FakeSource::scripted("nas", &contents, |_, _| Err(SourceError::Absent { host: "nas".to_owned() }));
    let down = FakeSource::scripted("peer", &contents, |_, _| Err(broken("peer")));
    let good = FakeSource::good("hub", &contents);
    check("the third has it", &contents, &[&absent, &down, &good]).await;
    let first = FakeSource::good("near", &contents);
    check("the first has it", &contents, &[&first, &good]).await;
    assert_eq!(first.sent_bytes(), LEN as u64, "the second source is not used");

    let home = Home::new();
    let refusing = FakeSource::scripted("hub", &contents, |_, _| {
        Err(SourceError::Refused { host: "hub".to_owned(), status: Some(401), reason: "sign in".to_owned() })
    });
    let error = run(&home.downloads(RealDisk, config()), blob_request(&contents, &[&absent, &refusing])).await;
    assert_eq!(
        error.expect_err("no source has the blob").to_string(),
        "hub refused: sign in",
        "the refusal is reported"
    );
    let error =
        run(&home.downloads(RealDisk, config()), blob_request(&contents, &[])).await.expect_err("there are no sources");
    assert!(matches!(error, DownloadError::NoSource(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_of_wrong_bytes_is_identified() {
    let right = contents(LEN, 3);
    let mut damaged = right.clone();
    damaged[700_000] ^= 1;
    let home = Home::new();
    let downloads = home.downloads(RealDisk, config());
    let corrupt = FakeSource::good("corrupt", &damaged);
    let error = run(&downloads, blob_request(&right, &[&corrupt])).await.expect_err("the bytes are wrong");
    let expected = format!("want {}, got {} (from corrupt)", Digest::of(&right), Digest::of(&damaged));
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert_eq!(home.files(), [""; 0], "no files are left");

    // The corrupt source sent the whole blob.
    let good = FakeSource::good("good", &right);
    let ready = run(&downloads, blob_request(&right, &[&corrupt, &good])).await.expect("the other source is correct");
    assert_eq!(ready.wrong_hosts, ["corrupt"], "the only possible source");
    assert!(std::fs::read(&ready.path).unwrap() == right, "the correct bytes");

    // Both sent a part: the one that fails half-way, and the corrupt.
    let home = Home::new();
    let downloads = home.downloads(RealDisk, config());
    let half = FakeSource::scripted("half", &right, |number, requested| {
        if number < 3 { Ok(FakeResponse::good(requested)) } else { Err(broken("half")) }
    });
    let corrupt = FakeSource::good("corrupt", &damaged);
    let good = FakeSource::good("good", &right);
    let ready =
        run(&downloads, blob_request(&right, &[&half, &corrupt, &good])).await.expect("the last source is correct");
    assert!(half.sent_bytes() > 0 && corrupt.sent_bytes() > 0, "both sources sent bytes");
    assert_eq!(ready.wrong_hosts, ["corrupt"], "its ranges differ from the correct blob");
    assert_eq!(good.sent_bytes(), LEN as u64, "the last source sent the whole blob");
    assert_eq!(home.files(), ["ready/blob"], "one file");
}
