package replayer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"spillway/shared/durable"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// schema is the version of memory written by this package.
const schema = 1

// memory is what must outlive the watchdog: whether there may be something to
// replay.
type memory struct {
	Schema int `json:"schema"`
	// Due says that the box was on its fallback since the last replay that came
	// to its end.
	Due bool `json:"due"`
	// Rev is the mode file's revision when it was last looked at.
	Rev    int64     `json:"rev"`
	DoneAt time.Time `json:"done_at,omitzero"` // a replay last came to its end
}

// recall reads the memory at path. found is false when there is none, as at the
// first start. With an error the memory returned is one that is due: a replay of
// what is replayed already costs a listing, one that is forgotten costs events.
func recall(path string) (m memory, found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return memory{Schema: schema}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Schema != schema {
		err = fmt.Errorf("schema is %d: this version reads %d", m.Schema, schema)
	}
	if err != nil {
		return memory{Schema: schema, Due: true}, false, fmt.Errorf("read what is to be replayed: %w", err)
	}
	return m, true, nil
}

func (m memory) save(path string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("remember what is to be replayed: %w", err)
	}
	if err := durable.WriteFile(path, append(data, '\n'), 0o640); err != nil {
		return fmt.Errorf("remember what is to be replayed: %w", err)
	}
	return nil
}

// away tells whether the box is on its fallback, is on the way to it or back, or
// has just come back. What a dry run imagines is none of these.
func away(s decide.State) bool {
	return s.Seen.Mode == mode.Fallback || !s.Mode.Ghost && s.Mode.Phase != decide.Primary
}

// missed tells whether the box may have gone to its fallback and come back since
// the mode file had the revision before, without being looked at: that takes two
// writes of the file. A file that was lost counts its revisions from 0 again.
func missed(before, now int64) bool { return now < before || now > before+1 }
