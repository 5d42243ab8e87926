package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/config"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/file"
	"spillway/collector/internal/sink/kinesis"
	"spillway/collector/internal/sink/s3"
	"spillway/shared/logsetup"
	"spillway/shared/mode"
)

// sinks are the destinations of both configs, for both lanes. All of them exist
// all the time, whichever is in use: the fallback so that it can be checked, the
// primary so that it can be probed.
type sinks struct {
	primary  map[sink.Lane]sink.Sink
	fallback map[sink.Lane]sink.Sink // nil when no fallback is configured
}

// makeSinks makes the sinks of a set of configs. None of them needs its
// destination to be there.
func makeSinks(set config.Set, log *logrus.Entry, metrics prometheus.Registerer) (*sinks, error) {
	s := &sinks{}
	var err error
	if s.primary, err = sinksOf(set.Primary, log, metrics); err != nil {
		return nil, err
	}
	if set.Fallback == nil {
		return s, nil
	}
	if s.fallback, err = sinksOf(*set.Fallback, log, metrics); err != nil {
		return nil, errors.Join(fmt.Errorf("fallback: %w", err), s.close())
	}
	return s, nil
}

func sinksOf(cfg config.Config, log *logrus.Entry, metrics prometheus.Registerer) (map[sink.Lane]sink.Sink, error) {
	made := map[sink.Lane]sink.Sink{}
	for _, lane := range sink.Lanes() {
		s, err := MakeSink(cfg, lane, logsetup.Component(log, "sink").WithField("lane", lane), metrics)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make the %s sink of the %s lane: %w", cfg.Sink.Type, lane, err), closeAll(made))
		}
		made[lane] = s
	}
	return made, nil
}

// MakeSink makes the sink of a lane that the config names. It does not need its
// destination to be there.
func MakeSink(cfg config.Config, lane sink.Lane, log *logrus.Entry, metrics prometheus.Registerer) (sink.Sink, error) {
	switch cfg.Sink.Type {
	case config.Kinesis:
		return kinesis.New(cfg.Sink.Kinesis, kinesis.Options{Lane: lane, Log: log, Metrics: metrics})
	case config.S3:
		return s3.New(cfg.Sink.S3, s3.Options{Lane: lane, Instance: cfg.Instance, Log: log, Metrics: metrics})
	default:
		return file.New(cfg.Files(), file.Options{Lane: lane, Instance: cfg.Instance, Metrics: metrics}), nil
	}
}

// route is where a lane's records go in a mode.
func (s *sinks) route(lane sink.Lane, m mode.Mode) delivery.Route {
	if m == mode.Fallback && s.fallback != nil {
		route := delivery.Route{Sink: s.fallback[lane]}
		if lane == sink.Good {
			route.Probe = s.primary[lane]
		}
		return route
	}
	return delivery.Route{Sink: s.primary[lane], Primary: true}
}

// checkFallback proves that the fallback would take both lanes, or is nil when
// there is none.
func (s *sinks) checkFallback() func(ctx context.Context) error {
	if s.fallback == nil {
		return nil
	}
	return func(ctx context.Context) error {
		for _, lane := range sink.Lanes() {
			if err := s.fallback[lane].Check(ctx); err != nil {
				return fmt.Errorf("%s lane: %w", lane, err)
			}
		}
		return nil
	}
}

func (s *sinks) close() error { return errors.Join(closeAll(s.primary), closeAll(s.fallback)) }

func closeAll(sinks map[sink.Lane]sink.Sink) error {
	var errs []error
	for _, s := range sinks {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
