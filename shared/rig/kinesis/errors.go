package kinesis

import (
	"strings"

	"github.com/google/uuid"

	"spillway/shared/rig/fault"
)

// Codes of errors that the service answers, for faults of kind Error; the first
// two also stand at single records (kind Record).
const (
	Throttled          = "ProvisionedThroughputExceededException"
	InternalFailure    = "InternalFailure"
	ServiceUnavailable = "ServiceUnavailable"
	LimitExceeded      = "LimitExceededException"
	Throttling         = "ThrottlingException"
	NotFound           = "ResourceNotFoundException"
	InvalidArgument    = "InvalidArgumentException"
	Validation         = "ValidationException"
	AccessDenied       = "AccessDeniedException"
	ExpiredToken       = "ExpiredTokenException"
	UnrecognizedClient = "UnrecognizedClientException"
	InvalidSignature   = "InvalidSignatureException"
	KMSAccessDenied    = "KMSAccessDeniedException"
	KMSDisabled        = "KMSDisabledException"
	KMSInvalidState    = "KMSInvalidStateException"
	KMSNotFound        = "KMSNotFoundException"
	KMSOptInRequired   = "KMSOptInRequired"
	KMSThrottling      = "KMSThrottlingException"
)

const account = "000000000000"

// texts holds the service's messages; STREAM and OP are replaced.
var texts = map[string]string{
	Throttled:          "Rate exceeded for stream STREAM under account " + account + ".",
	InternalFailure:    "Internal service failure.",
	ServiceUnavailable: "The request has failed due to a temporary failure of the server.",
	LimitExceeded:      "Rate exceeded for stream STREAM under account " + account + ".",
	Throttling:         "Rate exceeded",
	NotFound:           "Stream STREAM under account " + account + " not found.",
	AccessDenied: "User: arn:aws:iam::" + account + ":user/rig is not authorized to perform: kinesis:OP on resource: " +
		"arn:aws:kinesis:us-east-1:" + account + ":stream/STREAM because no identity-based policy allows the kinesis:OP action",
	ExpiredToken:       "The security token included in the request is expired",
	UnrecognizedClient: "The security token included in the request is invalid.",
	InvalidSignature: "The request signature we calculated does not match the signature you provided. " +
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.",
	KMSAccessDenied:  "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access.",
	KMSDisabled:      "The KMS key of stream STREAM is disabled.",
	KMSInvalidState:  "The KMS key of stream STREAM is pending deletion.",
	KMSNotFound:      "The KMS key of stream STREAM was not found.",
	KMSOptInRequired: "The AWS access key ID needs a subscription for the service.",
	KMSThrottling:    "The request to KMS was denied due to request throttling.",
}

// errorOf makes the error of a fault, with the service's text unless the fault
// brings its own.
func (s *Server) errorOf(f fault.Fault, op, stream string) error {
	text := f.Message
	if text == "" {
		text = strings.NewReplacer("STREAM", stream, "OP", op).Replace(texts[f.Code])
	}
	return &apiError{code: f.Code, message: text, status: f.Status}
}

func requestID() string { return uuid.NewString() }
