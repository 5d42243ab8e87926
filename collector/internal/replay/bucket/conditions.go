package bucket

import (
	"context"
	"errors"
	"fmt"
	"path"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/replay"
)

// ErrUnconditional says that the store does not heed the conditions of writes.
var ErrUnconditional = errors.New("the store takes conditional writes for plain ones, so two replayers could send the same objects: start one replayer only, with --single")

// CheckConditions makes sure that claims can be relied on. It writes one small
// object below the prefix, which stays.
func (s *Store) CheckConditions(ctx context.Context) error {
	if s.o.Single {
		return nil
	}
	key := path.Join(archive.CleanPrefix(s.cfg.Prefix), replay.MarkDir, "conditions")
	body := []byte("spillway looks whether this is replaced against a condition\n")
	write := func(c condition) error {
		_, err := s.put(ctx, key, body, c)
		return err
	}
	// After the first write the object exists, whoever wrote it, and it is never
	// removed: the others must be refused.
	if err := write(condition{absent: true}); err != nil && !errors.Is(err, errRefused) {
		return unsupported(err)
	}
	for _, c := range []condition{{absent: true}, {etag: `"00000000000000000000000000000000"`}} {
		switch err := write(c); {
		case err == nil:
			return ErrUnconditional
		case !errors.Is(err, errRefused):
			return unsupported(err)
		}
	}
	return nil
}

// unsupported explains the error of a store that knows no conditional writes.
func unsupported(err error) error {
	switch code(err) {
	case "NotImplemented", "HTTP 501", "InvalidArgument", "InvalidRequest":
		return fmt.Errorf("the store knows no conditional writes, by which replayers claim objects: start one replayer only, with --single: %w", err)
	}
	return fmt.Errorf("try a conditional write: %w", err)
}
