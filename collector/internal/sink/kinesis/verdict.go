package kinesis

import (
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
)

var (
	overRate = awsclient.Verdict{Class: sink.Throttled, Cause: sink.CauseThrottled,
		Means: "more than the stream, or one of its shards, takes: add shards if this goes on"}
	missing = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the stream does not exist there: create it, or correct its name, the region or the endpoint"}
	changing = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseServer,
		Means: "the stream is being made or deleted"}
	refused = awsclient.Verdict{Class: sink.Permanent, Cause: sink.CauseRecord,
		Means: "the service refuses a record as malformed or too large"}
	unstated = awsclient.Verdict{Class: sink.Transient, Cause: sink.CauseServer,
		Means: "the answer has neither a sequence number nor an error for a record"}
)

// verdicts holds what the service's codes mean, of whole calls and of single
// records. Permanent stands here only for what may be the fault of one record;
// put.go finds out whether it is. What is not here is a fault of the service.
var verdicts = awsclient.With(awsclient.Table{
	"ProvisionedThroughputExceededException": overRate,
	"LimitExceededException":                 overRate,
	"KMSThrottlingException":                 {Class: sink.Throttled, Cause: sink.CauseThrottled, Means: "KMS is asked for more than it gives"},

	"ResourceNotFoundException": missing,
	"ResourceInUseException":    changing,

	"KMSAccessDeniedException": awsclient.KeyDenied,
	"KMSDisabledException":     awsclient.NoKey,
	"KMSInvalidStateException": awsclient.NoKey,
	"KMSNotFoundException":     awsclient.NoKey,
	"KMSOptInRequired":         awsclient.NoKey,

	"InvalidArgumentException": refused,
	"ValidationException":      refused,
	"RequestEntityTooLarge":    refused,
	"HTTP 413":                 refused,
})
