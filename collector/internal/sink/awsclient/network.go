package awsclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"spillway/collector/internal/sink"
)

// network says what an error of the way to the service means, and whether it is
// one. What is unclear is so because the service may have done what it was
// asked; the caller repeats it all the same.
func network(c Call, err error) (v Verdict, detail string, ok bool) {
	means := func(text string) Verdict {
		return Verdict{Class: sink.Transient, Cause: sink.CauseNetwork, Means: text}
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return means("the name " + e.Name + " has no address: check the region, the endpoint and the DNS"), "", true
		}
		return means("the DNS does not answer for " + e.Name), "", true
	}
	if text, ok := tlsFault(err); ok {
		return means("TLS failed: check ca_file, the endpoint and the clock of this host"), text, true
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return means(fmt.Sprintf("no whole answer within %v; it may have been done all the same", c.Timeout)), "", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return means("connection refused: check the endpoint and that the service runs"), peer(err), true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return means("the connection broke before the whole answer; it may have been done all the same"), "", true
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return means("there is no way to the service: check the network of this host"), peer(err), true
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return means("too many open files on this host: raise its limit"), "", true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return means("the network failed"), fmt.Sprintf("%s %s: %v", e.Op, e.Net, e.Err), true
	}
	if e, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return means("the request could not be sent, or what answers is not HTTP: check the endpoint"), shorten(innermost(e).Error()), true
	}
	return Verdict{}, "", false
}

func tlsFault(err error) (text string, ok bool) {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return shorten(e.Err.Error()), true
	}
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return shorten(e.Error()), true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what answers does not speak TLS", true
	}
	if e, ok := errors.AsType[tls.AlertError](err); ok {
		return e.Error(), true
	}
	return "", false
}

// peer is the address that was dialled.
func peer(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Addr != nil {
		return e.Addr.String()
	}
	return ""
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
