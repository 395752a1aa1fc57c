//! An object store that speaks S3: opened with what the environment says, and asked once before anything is promised.

mod http;

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use http::Http;

/// How long a request is tried again: as long as one of the database is.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one try may take; the largest body has to come through.
const TRY: Duration = Duration::from_mins(1);
/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// Variables of which one has to say who asks. Nothing is looked for anywhere else.
const IDENTITIES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

fn given(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Opens `bucket/prefix`. Keys, region and endpoint are in the variables that AWS's own tools read.
pub(super) async fn open(place: &str) -> Result<Arc<dyn ObjectStore>, String> {
    let refused = |error: &dyn std::fmt::Display| format!("the object store s3://{place}: {error}");
    if !IDENTITIES.iter().any(|name| given(name)) {
        return Err(refused(&"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"));
    }
    if given("AWS_ACCESS_KEY_ID") && !given("AWS_SECRET_ACCESS_KEY") {
        return Err(refused(&"AWS_SECRET_ACCESS_KEY is not set"));
    }
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.is_empty() {
        return Err(refused(&"expected s3://BUCKET/PREFIX"));
    }
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(50),
        max_backoff: Duration::from_secs(2),
        base: 2.0,
    };
    // An endpoint of one's own may be plain HTTP, as AWS's tools take it; the address says so.
    let plain = |name: &str| std::env::var(name).is_ok_and(|url| url.starts_with("http://"));
    let plain = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"].into_iter().any(plain);
    let options = ClientOptions::new().with_allow_http(plain);
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(RetryConfig { backoff, max_retries: 20, retry_timeout: PATIENCE })
        .with_client_options(options)
        .with_http_connector(Http::new(CONNECT, TRY))
        .build()
        .map_err(|error| refused(&error))?;
    let prefix = Path::parse(prefix).map_err(|error| refused(&error))?;
    let store = PrefixStore::new(store, prefix);
    // A bucket that is not there, or that these keys do not open, is found now and not by the first who uploads.
    match store.list_with_delimiter(Some(&Path::from("objects/none"))).await {
        Ok(_) => Ok(Arc::new(store)),
        // The store's own word; a list has no error of its own for it.
        Err(error) if error.to_string().contains("NoSuchBucket") => {
            Err(refused(&format!("bucket `{bucket}` not found; create it first")))
        }
        Err(error) => Err(refused(&error)),
    }
}
