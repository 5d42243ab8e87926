package s3

import (
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
)

var (
	missing = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket does not exist there: create it, or correct its name or the endpoint"}
	elsewhere = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket is in another region: correct the region"}
	unsupported = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the service does not support the request: try checksums: when_required, path_style: true, another storage_class or a smaller max_bytes"}
	mangled = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseNetwork,
		Means: "the object did not arrive as it was sent"}
	full = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseServer,
		Means: "the service has no room left"}
)

// verdicts holds what the service's codes mean. An object has no fault of its
// own: whatever is wrong is wrong with the destination, and the records wait.
var verdicts = awsclient.With(awsclient.Table{
	"NoSuchBucket":      missing,
	"InvalidBucketName": missing,
	"NotFound":          missing,
	"HTTP 404":          missing,

	"PermanentRedirect":                  elsewhere,
	"TemporaryRedirect":                  elsewhere,
	"Redirect":                           elsewhere,
	"AuthorizationHeaderMalformed":       elsewhere,
	"IllegalLocationConstraintException": elsewhere,
	"HTTP 301":                           elsewhere,
	"HTTP 307":                           elsewhere,

	"AccountProblem":      awsclient.Denied,
	"AllAccessDisabled":   awsclient.Denied,
	"NotSignedUp":         awsclient.Denied,
	"InvalidPayer":        awsclient.Denied,
	"MethodNotAllowed":    unsupported,
	"NotImplemented":      unsupported,
	"InvalidRequest":      unsupported,
	"InvalidArgument":     unsupported,
	"InvalidStorageClass": unsupported,
	"EntityTooLarge":      unsupported,
	"HTTP 405":            unsupported,
	"HTTP 413":            unsupported,
	"HTTP 501":            unsupported,

	"KMS.DisabledException":        awsclient.NoKey,
	"KMS.NotFoundException":        awsclient.NoKey,
	"KMS.KMSInvalidStateException": awsclient.NoKey,
	"KMS.InvalidStateException":    awsclient.NoKey,
	"KMS.AccessDeniedException":    awsclient.KeyDenied,
	"KMS.ThrottlingException":      awsclient.Throttled,

	"BadDigest":                   mangled,
	"InvalidDigest":               mangled,
	"IncompleteBody":              mangled,
	"XAmzContentSHA256Mismatch":   mangled,
	"XAmzContentChecksumMismatch": mangled,

	"QuotaExceeded":     full,
	"XMinioStorageFull": full,
	"HTTP 507":          full,
})
