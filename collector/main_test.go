package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"spillway-collector": main})
}

// TestScripts runs the command line as a person would; each file in
// testdata/script is one story.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("AWS_REGION", "")
			return os.Unsetenv("STATE_DIRECTORY")
		},
		RequireExplicitExec: true,
	})
}
