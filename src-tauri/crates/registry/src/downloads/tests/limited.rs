//! Downloads of the beginning of a blob.

use super::*;

const HEAD: u64 = 100_000;

/// Waits until the first `bytes` of a blob are written.
async fn wait_for_head(subscription: &Subscription, bytes: u64) {
    let mut progress = subscription.progress();
    let written = progress.wait_for(|progress| progress.written.first_gap(0, bytes).is_none());
    let written = tokio::time::timeout(Duration::from_secs(20), written).await.expect("bytes arrive in time");
    drop(written.expect("the download exists"));
}

fn head(contents: &[u8], source: &Arc<FakeSource>) -> BlobRequest {
    BlobRequest { limit_bytes: Some(HEAD), ..blob_request(contents, &[source]) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limited_download_fetches_only_the_beginning() {
    let (home, contents) = (Home::new(), contents(LEN, 11));
    let (downloads, source) = (home.downloads(RealDisk, config()), FakeSource::good("nas", &contents));
    let mut subscription = downloads.fetch(head(&contents, &source));
    wait_for_head(&subscription, HEAD).await;
    tokio::time::sleep(ms(200)).await;
    assert_eq!(source.sent_bytes(), HEAD, "no byte behind the limit");
    subscription.raise_limit(2 * HEAD);
    wait_for_head(&subscription, 2 * HEAD).await;
    assert_eq!(source.sent_bytes(), 2 * HEAD, "the next bytes");
    subscription.raise_limit(HEAD);
    subscription.raise_limit(u64::MAX);
    subscription.wait().await.expect("the download completes");
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte was sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_limited_download_keeps_the_beginning() {
    let (home, contents) = (Home::new(), contents(LEN, 12));
    let (downloads, source) = (home.downloads(RealDisk, config()), FakeSource::good("nas", &contents));
    let subscription = downloads.fetch(head(&contents, &source));
    wait_for_head(&subscription, HEAD).await;
    drop(subscription);
    wait_until("the download is cancelled", || downloads.list().is_empty()).await;
    assert_eq!(downloads.staging().durable_bytes(&cairn_store::Digest::of(&contents)), HEAD, "the bytes are stored");
    let again = downloads.fetch(head(&contents, &source));
    wait_for_head(&again, HEAD).await;
    assert_eq!(source.sent_bytes(), HEAD, "nothing is requested again");
    drop(again);
    run(&downloads, blob_request(&contents, &[&source])).await.expect("the download completes");
    assert_eq!(source.sent_bytes(), LEN as u64, "the rest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriber_without_a_limit_gets_the_whole_blob() {
    let (home, contents) = (Home::new(), contents(LEN, 13));
    let (downloads, source) = (home.downloads(RealDisk, config()), FakeSource::good("nas", &contents));
    let limited = downloads.fetch(head(&contents, &source));
    wait_for_head(&limited, HEAD).await;
    let mut whole = downloads.fetch(blob_request(&contents, &[&source]));
    tokio::time::timeout(Duration::from_secs(20), whole.wait()).await.expect("in time").expect("it completes");
    assert_eq!(source.sent_bytes(), LEN as u64, "each byte was sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limited_download_from_a_source_without_ranges_completes() {
    let (home, contents) = (Home::new(), contents(LEN, 14));
    let source = FakeSource::scripted("nas", &contents, |_, _| Ok(FakeResponse::good(&(0..LEN as u64))));
    let downloads = home.downloads(RealDisk, config());
    let mut subscription = downloads.fetch(head(&contents, &source));
    wait_for_head(&subscription, HEAD).await;
    subscription.raise_limit(2 * HEAD);
    wait_for_head(&subscription, 2 * HEAD).await;
    subscription.raise_limit(u64::MAX);
    tokio::time::timeout(Duration::from_secs(20), subscription.wait()).await.expect("in time").expect("it completes");
}
