package awsclient

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"spillway/shared/configfile"
)

// Config says how a service is reached and who calls it. It stands among the
// keys of the sink.
type Config struct {
	// Region is the AWS region. Default and empty: AWS_REGION or the profile's.
	Region string `yaml:"region"`
	// Endpoint is the URL of the service, for VPC endpoints and services that are
	// not AWS. Default and empty: the region's own.
	Endpoint string `yaml:"endpoint"`
	// Profile is a profile of the AWS config and credentials files. Default and
	// empty: AWS_PROFILE or the default one.
	Profile string `yaml:"profile"`
	// AccessKeyID is the name of fixed credentials. Default and empty: the usual
	// chain (environment, profile, web identity, container, instance role).
	AccessKeyID string `yaml:"access_key_id"`
	// SecretAccessKey goes with AccessKeyID.
	SecretAccessKey configfile.Secret `yaml:"secret_access_key"`
	// RoleARN is a role to assume with those credentials. Default and empty: none.
	RoleARN string `yaml:"role_arn"`
	// ExternalID goes with RoleARN where the role asks for one.
	ExternalID string `yaml:"external_id"`
	// CAFile holds the certificates to trust, in PEM, instead of the system's.
	// Default and empty: AWS_CA_BUNDLE, else the system's.
	CAFile string `yaml:"ca_file"`
	// RequestTimeout is how long one attempt may take, from looking up the name to
	// the last byte of the answer. At least 100ms.
	RequestTimeout time.Duration `yaml:"request_timeout"`
}

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			wrong("endpoint: %q is not a URL like https://host:port", c.Endpoint)
		}
	}
	if c.AccessKeyID != "" && !c.SecretAccessKey.IsSet() {
		wrong("secret_access_key: it is missing, but access_key_id is set")
	}
	if c.AccessKeyID == "" && c.SecretAccessKey.IsSet() {
		wrong("access_key_id: it is missing, but secret_access_key is set")
	}
	if c.ExternalID != "" && c.RoleARN == "" {
		wrong("external_id: it goes with role_arn, which is not set")
	}
	if c.RequestTimeout < 100*time.Millisecond {
		wrong("request_timeout: %v is less than 100ms", c.RequestTimeout)
	}
	return errors.Join(errs...)
}
