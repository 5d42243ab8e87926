package folder_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"spillway/collector/internal/replay"
	"spillway/collector/internal/replay/folder"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir, owner string) *folder.Store {
	t.Helper()
	s, err := folder.Open(dir, owner)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore_Claim_isALockThatEndsWithItsOwner(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good", "o"), "content")
	a, b := open(t, dir, "a"), open(t, dir, "b")
	e := replay.Entry{Key: a.Place() + "good/o", Size: 7}
	marks := replay.Marks{Claim: a.Place() + "_replay/good/o.claim", Done: a.Place() + "_replay/good/o.done", Damaged: a.Place() + "_replay/good/o.damaged"}
	ctx := t.Context()
	c, err := a.Claim(ctx, e, marks, "x")
	if err != nil {
		t.Fatal(err)
	}
	busy, isBusy := errors.AsType[*replay.BusyError](errorOf(b.Claim(ctx, e, marks, "x")))
	if !isBusy || busy.By != "a" {
		t.Errorf("a second claim: %v", busy)
	}
	if err := c.Save(ctx, replay.Mark{Line: 5, Events: 4}); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(ctx, replay.Mark{Line: 6, Events: 5}); err != nil {
		t.Fatal(err)
	}
	c, err = b.Claim(ctx, e, marks, "x")
	if err != nil || c.Found().Line != 6 || c.Found().By != "a" {
		t.Fatalf("after the first let go: %+v, %v", c, err)
	}
	if err := c.Finish(ctx, replay.Mark{Line: 7, Damaged: 1}); err != nil {
		t.Fatal(err)
	}
	if err := errorOf(a.Claim(ctx, e, marks, "x")); !errors.Is(err, replay.ErrDone) {
		t.Errorf("a claim of what is done: %v", err)
	}
	if m, err := a.ReadMark(ctx, marks.Damaged); err != nil || m.Damaged != 1 || m.By != "b" {
		t.Errorf("mark %+v, %v", m, err)
	}
	if err := a.Delete(ctx, e.Key); err != nil {
		t.Fatal(err)
	}
	if err := errorOf(a.Claim(ctx, e, marks, "x")); !errors.Is(err, replay.ErrDone) {
		t.Errorf("a claim of what is done and deleted: %v", err)
	}
}

func errorOf(_ replay.Claim, err error) error { return err }

func TestStore_Claim_withAMarkThatIsNotOurs_beginsAtTheBeginning(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "o"), "content")
	write(t, filepath.Join(dir, "_replay", "o.claim"), "{")
	s := open(t, dir, "a")
	c, err := s.Claim(t.Context(), replay.Entry{Key: s.Place() + "o"}, replay.Marks{
		Claim: s.Place() + "_replay/o.claim", Done: s.Place() + "_replay/o.done", Damaged: s.Place() + "_replay/o.damaged"}, "x")
	if err != nil || c.Found().Line != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := c.Release(t.Context(), replay.Mark{}); err != nil {
		t.Error(err)
	}
}

func TestStore_List_andOpen(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good/b", "good/a", "bad/c", "good/.a.tmp-1", "_replay/good/a.done"} {
		write(t, filepath.Join(dir, name), name)
	}
	s := open(t, dir, "a")
	var keys []string
	if err := s.List(t.Context(), s.Place(), func(e replay.Entry) error {
		keys = append(keys, strings.TrimPrefix(e.Key, s.Place()))
		r, err := s.Open(t.Context(), e)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		content, err := io.ReadAll(r)
		if string(content) != keys[len(keys)-1] || int64(len(content)) != e.Size {
			t.Errorf("%s holds %q, %d bytes", e.Key, content, e.Size)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(keys, " "); got != "_replay/good/a.done bad/c good/a good/b" {
		t.Errorf("listed %s", got)
	}
	if err := s.List(t.Context(), s.Place()+"none/", func(replay.Entry) error { return errors.New("visited") }); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.List(ctx, s.Place(), func(replay.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("listed after the end: %v", err)
	}
	if _, err := folder.Open(filepath.Join(dir, "good/a"), "a"); err == nil {
		t.Error("a file was opened as a directory")
	}
}
