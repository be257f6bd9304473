// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command etcdwrapper stands in for the image of gardener/etcd-wrapper, which is not available as a Go module. It is
// the etcd container of the pods that etcd-druid creates: it asks the etcd-backup-restore sidecar to prepare the data
// directory, fetches the etcd configuration from it and runs an embedded etcd of the version that Gardener ships.
// Beside etcd it serves the readiness probe and the stop request that druid and the sidecar rely on.
//
// It does what the real one does, its oddities included, and nothing that would be kinder: etcd gets the configuration
// as it is, a signal is recorded before etcd has stopped, and etcd is given no time to become ready before the record
// of the last exit goes. docs/development/landscape.md says what is left to tell them apart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
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
		"wait so long for etcd before it counts as started, ready or not")
}

// validate refuses what a request to the sidecar cannot be made from.
func (o *options) validate() error {
	_, _, err := net.SplitHostPort(o.sidecarAddress)
	if err != nil {
		err = fmt.Errorf("failed to parse --backup-restore-host-port %q: %w", o.sidecarAddress, err)
	}
	if o.sidecarTLS && strings.TrimSpace(o.sidecarCAFile) == "" {
		err = errors.Join(err, errors.New("failed to find a CA bundle: --backup-restore-ca-cert-bundle-path is empty"))
	}
	return err
}

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(os.Args) < 2 || os.Args[1] != "start-etcd" {
		fmt.Fprintf(os.Stderr, "usage: %s start-etcd [flags]\n", filepath.Base(os.Args[0]))
		os.Exit(1)
	}
	exit := exitMarker{path: filepath.Join(dataVolume, "exit_code")}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go stopOnSignal(log, signals, exit, stop)

	var opts options
	flags := flag.NewFlagSet("start-etcd", flag.ExitOnError)
	opts.addFlags(flags)
	_ = flags.Parse(os.Args[2:])

	if err := (wrapper{log: log, opts: opts, exit: exit, volume: dataVolume}).run(ctx, stop); err != nil {
		log.Error("failed to start etcd", "error", err)
		os.Exit(1)
	}
	log.Info("stopped")
}

// stopOnSignal records the first signal before anything stops. Whoever is killed while etcd stops has a record of an
// orderly end, and the sidecar makes the quick check of its data. The second signal ends the process at once.
//
// /stop does not come by here: the next start then validates the whole data directory.
func stopOnSignal(log *slog.Logger, signals <-chan os.Signal, exit exitMarker, stop context.CancelFunc) {
	received := <-signals
	if err := exit.write(received); err != nil {
		log.Error("failed to record the signal", "error", err)
	}
	log.Info("received a signal", "signal", received.String())
	stop()
	<-signals
	os.Exit(1)
}

// wrapper runs one member.
type wrapper struct {
	log    *slog.Logger
	opts   options
	exit   exitMarker
	volume string
}

// run runs etcd until the context ends, which stop ends too, or etcd stops. That etcd has failed is no error: the
// process then ends with 0, as after a stop. Only what keeps etcd from being started is one.
func (w wrapper) run(ctx context.Context, stop context.CancelFunc) error {
	if err := w.opts.validate(); err != nil {
		return err
	}
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
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("failed to find the home folder: %w", err)
	}
	m, err := newMember(w.log, w.opts, home, configuration)
	if err != nil {
		return err
	}
	return m.run(ctx, stop, w.exit)
}
