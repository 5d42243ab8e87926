package kinesis

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
)

// Check implements sink.Sink, as Config.Check says. It writes no record, unless
// the endpoint takes a dry run for a real one: then it stores an empty record
// once, is found out by its answer, and is asked to describe the stream from then
// on.
func (s *Sink) Check(ctx context.Context) error {
	mode := s.cfg.checkMode()
	if mode == CheckDryRun && s.dryRunIgnored.Load() {
		mode = CheckDescribe
	}
	attempt, cancel := context.WithTimeout(ctx, s.cfg.AWS.RequestTimeout)
	defer cancel()
	call := awsclient.Call{Context: ctx, Timeout: s.cfg.AWS.RequestTimeout}
	var err error
	switch mode {
	case CheckDryRun:
		call.Doing = "check by a dry run that records may be put into " + s.where
		err = s.dryRun(attempt)
	case CheckDescribe:
		call.Doing = "check " + s.where
		err = s.describe(attempt)
	}
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sink.Error](err); ok {
		return e
	}
	class, e := verdicts.Explain(call, err)
	if class == sink.Permanent {
		e.Cause = sink.CauseConfig // there is no record at fault
		e.Message = call.Doing + ": the service refuses the call: correct the endpoint, or set check to describe or off"
	}
	return e
}

func (s *Sink) dryRun(ctx context.Context) error {
	in := &kinesis.PutRecordsInput{DryRun: aws.Bool(true),
		Records: []types.PutRecordsRequestEntry{{Data: []byte{}, PartitionKey: aws.String("dry-run")}}}
	in.StreamName, in.StreamARN = s.address()
	_, err := s.client.PutRecords(ctx, in)
	if _, ok := errors.AsType[*types.DryRunOperationException](err); ok {
		return nil // it would have been done
	}
	if err == nil {
		s.dryRunIgnored.Store(true)
		s.log.Errorf("the service behind %s does not know dry runs and stored an empty record; it will be asked to describe the stream instead: set check to describe or off", s.where)
	}
	return err
}

func (s *Sink) describe(ctx context.Context) error {
	in := &kinesis.DescribeStreamSummaryInput{}
	in.StreamName, in.StreamARN = s.address()
	out, err := s.client.DescribeStreamSummary(ctx, in)
	if err != nil {
		return err
	}
	if out.StreamDescriptionSummary == nil {
		return &sink.Error{Cause: sink.CauseServer, Message: "check " + s.where + ": the answer does not describe a stream"}
	}
	switch status := out.StreamDescriptionSummary.StreamStatus; status {
	case types.StreamStatusCreating, types.StreamStatusDeleting:
		return &sink.Error{Cause: sink.CauseConfig, Message: fmt.Sprintf("check %s: it is %s and takes no records", s.where, status)}
	}
	return nil
}
