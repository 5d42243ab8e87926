// Command standins serves the rig's stand-ins for Kinesis and S3 on fixed ports,
// for programs that run elsewhere: in containers, or under systemd. They forget
// everything when they end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"spillway/shared/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "standins:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	var o rig.Options
	flag.StringVar(&o.Kinesis.Addr, "kinesis", "127.0.0.1:4567", "where Kinesis listens, an IPv4 `host:port`")
	flag.StringVar(&o.S3.Addr, "s3", "127.0.0.1:4568", "where S3 listens")
	flag.StringVar(&o.Control, "control", "127.0.0.1:4570", "where both are broken and mended")
	flag.Parse()
	r, err := rig.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("kinesis %s  s3 %s  control %s\n", r.Kinesis.URL(), r.S3.URL(), r.ControlURL())
	<-ctx.Done()
	return r.Close()
}
