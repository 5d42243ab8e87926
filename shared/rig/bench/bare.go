package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"spillway/shared/rig/port"
	"spillway/shared/rig/proc"
)

// bareRole is the argument with which this program is the bare server.
const bareRole = "bare"

// serveBare is the least a server can do: it reads the body and answers ok. Where
// it listens stands in the environment.
func serveBare() int {
	err := http.ListenAndServe(os.Getenv("BENCH_LISTEN"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "ok")
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// startBare starts the bare server as a process of its own.
func startBare(dir string) (p *proc.Process, addr string, err error) {
	free, err := port.Free()
	if err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	addr = port.Addr(free)
	p, err = proc.Start(proc.Spec{
		Path: self, Args: []string{bareRole}, Env: append(os.Environ(), "BENCH_LISTEN="+addr), Log: filepath.Join(dir, "bare.log"),
	})
	return p, addr, err
}
