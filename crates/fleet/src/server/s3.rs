//! An S3-compatible object store, configured by the environment and tested once at the start.

mod http;

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use http::Http;

/// How long a request is retried: as long as for the database.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit of one attempt; sufficient for the largest body.
const TRY: Duration = Duration::from_mins(1);
/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Environment variables of which at least one must provide credentials. Other sources are not searched.
const IDENTITIES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

fn given(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Opens `bucket/prefix`. Keys, region and endpoint come from AWS's environment variables.
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
    // A custom endpoint may use plain HTTP, as in AWS's tools, if its URL starts with http://.
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
    // Detects a missing bucket or wrong keys at the start, not at the first upload.
    match store.list_with_delimiter(Some(&Path::from("objects/none"))).await {
        Ok(_) => Ok(Arc::new(store)),
        // The store's own error code; the list operation has no specific error for it.
        Err(error) if error.to_string().contains("NoSuchBucket") => {
            Err(refused(&format!("bucket `{bucket}` not found; create it first")))
        }
        Err(error) => Err(refused(&error)),
    }
}
