package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/watchdog/internal/state"
)

type memory struct {
	Schema int    `json:"schema"`
	Word   string `json:"word"`
}

func check(m memory) error {
	if m.Schema != 1 {
		return errors.New("schema is not 1")
	}
	return nil
}

func store(dir string) *state.Store[memory] {
	return state.New(filepath.Join(dir, "state.json"), check)
}

func load(t *testing.T, dir string) state.Loaded[memory] {
	t.Helper()
	found, err := store(dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestStore_Load_ofNothingIsAFreshStart(t *testing.T) {
	if found := load(t, t.TempDir()); found.Origin != state.Fresh || found.Cause != nil {
		t.Errorf("got %+v", found)
	}
}

// damage is what a crash, a full disk or a person can leave behind.
var damage = map[string]func(whole []byte) []byte{
	"empty":        func([]byte) []byte { return nil },
	"zeroes":       func(w []byte) []byte { return make([]byte, len(w)) },
	"truncated":    func(w []byte) []byte { return w[:len(w)/2] },
	"not json":     func([]byte) []byte { return []byte("see the old file") },
	"wrong schema": func([]byte) []byte { return []byte(`{"schema":9,"word":"later"}`) },
	"wrong type":   func([]byte) []byte { return []byte(`{"schema":"1"}`) },
	"bare null":    func([]byte) []byte { return []byte("null") },
}

func TestStore_Load_ofDamageUsesTheBackupAndKeepsTheFile(t *testing.T) {
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := store(dir)
			for _, word := range []string{"first", "second"} {
				if err := s.Save(memory{1, word}); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "state.json")
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, harm(whole), 0o600); err != nil {
				t.Fatal(err)
			}
			found := load(t, dir)
			if found.Origin != state.Backup || found.Value.Word != "first" || found.Cause == nil || len(found.Aside) != 1 {
				t.Fatalf("got %+v", found)
			}
			if kept, err := os.ReadFile(found.Aside[0]); err != nil || string(kept) != string(harm(whole)) {
				t.Errorf("kept %q, %v", kept, err)
			}
		})
	}
}

func TestStore_Load_ofDamageTwiceIsAmnesia(t *testing.T) {
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range []string{"state.json", "state.json.bak"} {
				if err := os.WriteFile(filepath.Join(dir, file), harm([]byte(`{"schema":1}`)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found := load(t, dir)
			if found.Origin != state.Amnesia || found.Cause == nil || len(found.Aside) != 2 || found.Value != (memory{}) {
				t.Errorf("got %+v", found)
			}
			if again := load(t, dir); again.Origin != state.Fresh {
				t.Errorf("next start: got %+v", again)
			}
		})
	}
}

func TestStore_Save_survivesInBothFiles(t *testing.T) {
	dir := t.TempDir()
	s := store(dir)
	for _, word := range []string{"first", "second", "second"} {
		if err := s.Save(memory{1, word}); err != nil {
			t.Fatal(err)
		}
	}
	if found := load(t, dir); found.Origin != state.Current || found.Value.Word != "second" {
		t.Errorf("got %+v", found)
	}
	// An equal value is not written again, so it does not push the backup out.
	if err := os.Remove(filepath.Join(dir, "state.json")); err != nil {
		t.Fatal(err)
	}
	if found := load(t, dir); found.Origin != state.Backup || found.Value.Word != "first" {
		t.Errorf("backup: got %+v", found)
	}
	if peeked, err := store(dir).Peek(); err != nil || peeked.Word != "first" {
		t.Errorf("peek: got %+v, %v", peeked, err)
	}
}

func TestStore_Save_fromAnotherRunKeepsABackup(t *testing.T) {
	dir := t.TempDir()
	if err := store(dir).Save(memory{1, "first"}); err != nil {
		t.Fatal(err)
	}
	s := store(dir)
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(memory{1, "second"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := load(t, dir); found.Origin != state.Backup || found.Value.Word != "first" {
		t.Errorf("got %+v", found)
	}
}

func TestStore_Save_saysWhenItCannot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	s := store(dir)
	first, second := s.Save(memory{1, "x"}), s.Save(memory{1, "x"})
	if first == nil || second == nil {
		t.Fatal("saved into a directory that is not there")
	}
	if got, want := first.Error(), "save the state in "+dir+": no such file or directory"; got != want || second.Error() != want {
		t.Errorf("got %q, then %q", got, second)
	}
}

func TestTakeLock_isHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watchdog.lock")
	first, err := state.TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.TakeLock(path); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "held by process ") {
		t.Errorf("got %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := state.TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Release()
}

func FuzzStore_Load_neverFails(f *testing.F) {
	f.Add([]byte(`{"schema":1,"word":"x"}`), []byte("null"))
	f.Fuzz(func(t *testing.T, current, backup []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"state.json": current, "state.json.bak": backup} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found := load(t, dir)
		if usable := found.Origin == state.Current || found.Origin == state.Backup; usable != (found.Value.Schema == 1) {
			t.Errorf("got %+v", found)
		}
		if err := store(dir).Save(memory{1, "next"}); err != nil {
			t.Fatal(err)
		}
		if again := load(t, dir); again.Value.Word != "next" {
			t.Errorf("after a save: got %+v", again)
		}
	})
}
