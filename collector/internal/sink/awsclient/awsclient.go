// Package awsclient is what the sinks that speak to AWS (or to a service that
// answers like it) have in common: how to reach and to whom to present oneself
// (config.go), a client that makes one attempt at a time and needs no network to
// be made (this file), and what a failed call means (verdict.go, network.go).
package awsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/sirupsen/logrus"

	"spillway/shared/logsetup"
)

const (
	// refreshEarly is how long before their end credentials are renewed, so that
	// an outage of the service that gives them is not felt at once.
	refreshEarly = 10 * time.Minute
	// dialTimeout leaves room for a second address within one attempt.
	dialTimeout = 3 * time.Second
	idleTimeout = 50 * time.Second
)

// Client is what a service's client of the SDK is made from.
type Client struct {
	AWS aws.Config // one attempt per call, our connections, region and credentials set

	transport *http.Transport
}

// New makes a client for at most that many calls at a time. It reads local files
// (profiles, the CA) but makes no call: the service, the network and the
// credentials may all be missing. What the config does not say comes from the
// environment and the files the AWS tools use.
func New(c Config, connections int, log *logrus.Entry) (*Client, error) {
	builder := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = min(dialTimeout, c.RequestTimeout) }).
		WithTransportOptions(func(t *http.Transport) {
			// Calls that share one HTTP/2 connection all hang when it goes silent, and
			// their time-outs do not close it. Here a call that timed out takes its
			// connection with it, and the next one asks the DNS again.
			t.Protocols = new(http.Protocols)
			t.Protocols.SetHTTP1(true)
			t.ForceAttemptHTTP2 = false
			t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
			t.IdleConnTimeout = idleTimeout
			t.TLSHandshakeTimeout = c.RequestTimeout
		})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(builder), // stays a builder so that AWS_CA_BUNDLE can be added to it
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithDefaultsMode(aws.DefaultsModeLegacy), // auto would ask the network here
		config.WithLogger(logsetup.AWS(log)),
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = refreshEarly }),
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if c.AccessKeyID != "" {
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey.Reveal(), "")))
	}
	if c.CAFile != "" {
		ca, err := os.Open(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		defer func() { _ = ca.Close() }()
		options = append(options, config.WithCustomCABundle(ca))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS settings: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("region: it is set neither here nor in AWS_REGION nor in the profile")
	}
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		builder = b
	}
	transport := builder.GetTransport()
	cfg.HTTPClient = doer{&http.Client{
		Transport: transport,
		// A redirect means a wrong region or endpoint; the call is signed for this one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.RoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), c.RoleARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = "spillway"
			if c.ExternalID != "" {
				o.ExternalID = &c.ExternalID
			}
		})
		cfg.Credentials = aws.NewCredentialsCache(role, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = refreshEarly })
	}
	cfg.Credentials = provider{cfg.Credentials}
	return &Client{AWS: cfg, transport: transport}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// doer sends requests whose bodies can only be read.
//
// The SDK closes a body as soon as the head of the answer is there. If net/http
// comes only then to see that the body is at its end, and does so by WriteTo, it
// gets io.EOF from the SDK's closed body, takes that for a failed write, and cuts
// the connection while the answer is being read: all records of a call that
// succeeded would be sent again.
type doer struct{ client *http.Client }

// Do implements aws.HTTPClient.
func (d doer) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	return d.client.Do(req)
}

// provider marks the errors of another provider, which may look like those of
// the network.
type provider struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (p provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := p.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, &credentialsError{err}
	}
	return c, nil
}

// credentialsError says that there are no credentials to sign with.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "no credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
