// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command etcdwrapper stands in for the image of gardener/etcd-wrapper, which is not available as a Go module. It is
// the etcd container of the pods that etcd-druid creates: it asks the etcd-backup-restore sidecar to prepare the data
// directory, fetches the etcd configuration from it and runs an embedded etcd of the version that Gardener ships.
// Beside etcd it serves the readiness probe and the stop request that druid and the sidecar rely on.
//
// In one thing it is known to be kinder than etcd as Gardener configures it: it serves gRPC on a listener of its own,
// so that a member that stops lets the requests in flight finish (see serveGRPCAlone).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// dataVolume is where etcd-druid mounts the member's volume.
const dataVolume = "/var/etcd/data"

// options are the flags that etcd-druid's StatefulSet passes to the etcd container.
type options struct {
	sidecarAddress   string
	sidecarTLS       bool
	sidecarCAFile    string
	etcdServerName   string
	etcdClientPort   int
	etcdClientCert   string
	etcdClientKey    string
	wrapperPort      int
	etcdReadyTimeout time.Duration
}

func (o *options) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.sidecarAddress, "backup-restore-host-port", ":8080", "host:port of the etcd-backup-restore sidecar")
	fs.BoolVar(&o.sidecarTLS, "backup-restore-tls-enabled", false, "use TLS to the sidecar")
	fs.StringVar(&o.sidecarCAFile, "backup-restore-ca-cert-bundle-path", "", "CA bundle that verifies the sidecar")
	fs.StringVar(&o.etcdServerName, "etcd-server-name", "",
		"host name under which the local etcd is reached and verified")
	fs.IntVar(&o.etcdClientPort, "etcd-client-port", 2379, "client port of the local etcd")
	fs.StringVar(&o.etcdClientCert, "etcd-client-cert-path", "", "client certificate for the local etcd")
	fs.StringVar(&o.etcdClientKey, "etcd-client-key-path", "", "client key for the local etcd")
	fs.IntVar(&o.wrapperPort, "etcd-wrapper-port", 9095, "port of the readiness probe and the stop request")
	fs.DurationVar(&o.etcdReadyTimeout, "etcd-ready-timeout", 0,
		"give up when etcd is not ready in this time; 0 waits forever")
}

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(os.Args) < 2 || os.Args[1] != "start-etcd" {
		fmt.Fprintf(os.Stderr, "usage: %s start-etcd [flags]\n", filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	var opts options
	flags := flag.NewFlagSet("start-etcd", flag.ExitOnError)
	opts.addFlags(flags)
	_ = flags.Parse(os.Args[2:])

	// /stop cancels the context without a signal: the next start then validates the whole data directory.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	exit := exitMarker{path: filepath.Join(dataVolume, "exit_code")}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	received := make(chan os.Signal, 1)
	go func() {
		s := <-signals
		received <- s
		stop()
	}()

	err := wrapper{log: log, opts: opts, exit: exit}.run(ctx, stop)
	select {
	case s := <-received:
		if writeErr := exit.write(s); writeErr != nil {
			log.Error("failed to record the signal that ended etcd", "error", writeErr)
		}
	default:
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error("failed to run etcd", "error", err)
		os.Exit(1)
	}
	log.Info("stopped")
}

// wrapper runs one member.
type wrapper struct {
	log  *slog.Logger
	opts options
	exit exitMarker
}

// run runs etcd until the context ends, which stop ends too.
func (w wrapper) run(ctx context.Context, stop context.CancelFunc) error {
	sidecar, err := newSidecar(w.log, w.opts)
	if err != nil {
		return err
	}
	if err := sidecar.initialize(ctx, w.exit.validationMode); err != nil {
		return fmt.Errorf("failed to initialize the data directory: %w", err)
	}
	configuration, err := sidecar.etcdConfiguration(ctx)
	if err != nil {
		return fmt.Errorf("failed to fetch the etcd configuration: %w", err)
	}
	m, err := newMember(w.log, w.opts, dataVolume, configuration)
	if err != nil {
		return err
	}
	return m.run(ctx, stop, w.exit)
}
