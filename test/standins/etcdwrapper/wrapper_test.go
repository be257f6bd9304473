// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fakeSidecar behaves as the HTTP API of etcd-backup-restore: the status falls back to New once a final one was read.
type fakeSidecar struct {
	mu       sync.Mutex
	status   string
	failures int
	modes    []string
	config   string
}

func (f *fakeSidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.URL.Path {
	case "/initialization/status":
		fmt.Fprint(w, f.status)
		if f.status != "Progress" {
			f.status = "New"
		}
	case "/initialization/start":
		f.modes = append(f.modes, r.URL.Query().Get("mode"))
		f.status = "Successful"
		if f.failures > 0 {
			f.failures--
			f.status = "Failed"
		}
	case "/config":
		fmt.Fprint(w, f.config)
	default:
		http.NotFound(w, r)
	}
}

var lastPort atomic.Int32

// freePort returns a port that it has not returned before, below those that the kernel gives to whoever asks for any.
func freePort() int {
	lastPort.CompareAndSwap(0, 20000+int32(os.Getpid()%10000))
	for {
		port := int(lastPort.Add(1))
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			l.Close()
			return port
		}
	}
}

func etcdConfiguration(folder string, client, peer int) string {
	return fmt.Sprintf(`
name: m0
data-dir: %s/new.etcd
listen-client-urls: http://127.0.0.1:%[2]d
advertise-client-urls: http://127.0.0.1:%[2]d
listen-peer-urls: http://127.0.0.1:%[3]d
initial-advertise-peer-urls: http://127.0.0.1:%[3]d
initial-cluster: m0=http://127.0.0.1:%[3]d
initial-cluster-state: new
member-name-prefix: unknown-keys-are-ignored
`, folder, client, peer)
}

func awaitReady(ctx context.Context, t *testing.T, client *http.Client, base string) {
	t.Helper()
	for ready := false; !ready; {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			t.Fatal("etcd did not become ready")
		}
		if response, err := client.Get(base + "/readyz"); err == nil {
			response.Body.Close()
			ready = response.StatusCode == http.StatusOK
		}
	}
}

func TestRunsEtcdAfterTheSidecarPreparedIt(t *testing.T) {
	folder, client, port := t.TempDir(), freePort(), freePort()
	fake := &fakeSidecar{status: "New", failures: 1, config: etcdConfiguration(folder, client, freePort())}
	server := httptest.NewServer(fake)
	defer server.Close()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := options{sidecarAddress: strings.TrimPrefix(server.URL, "http://"), etcdServerName: "127.0.0.1",
		etcdClientPort: client, wrapperPort: port}
	sidecar, err := newSidecar(log, opts)
	if err != nil {
		t.Fatal(err)
	}
	sidecar.interval = time.Millisecond
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	exit := exitMarker{path: filepath.Join(folder, "exit_code")}
	if err := sidecar.initialize(ctx, exit.validationMode); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(fake.modes, ","); got != "full,full" {
		t.Errorf("initialization modes = %s, want a second attempt after the failed one", got)
	}
	configuration, err := sidecar.etcdConfiguration(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMember(log, opts, folder, configuration)
	if err != nil {
		t.Fatal(err)
	}
	if err := exit.write(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.run(ctx, stop, exit) }()

	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	awaitReady(ctx, t, http.DefaultClient, base)
	if _, err := os.Stat(exit.path); !os.IsNotExist(err) {
		t.Errorf("the record of the last exit must be gone once etcd runs: %v", err)
	}
	response, err := http.Get(base + "/stop")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || ctx.Err() != nil {
		t.Error("only POST stops, and any other verb is answered with 200")
	}
	response, err = http.Post(base+"/stop", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestValidationMode(t *testing.T) {
	exit := exitMarker{path: filepath.Join(t.TempDir(), "exit_code")}
	expect := func(want string) {
		t.Helper()
		if got := exit.validationMode(); got != want {
			t.Errorf("validation mode = %s, want %s", got, want)
		}
	}
	expect("full")
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := exit.write(s); err != nil {
			t.Fatal(err)
		}
		expect("sanity")
	}
	if err := exit.write(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	expect("full")
	for range 2 { // removing twice is no error
		if err := exit.remove(); err != nil {
			t.Fatal(err)
		}
	}
	expect("full")
}

func TestRecordsTheSignalBeforeItStops(t *testing.T) {
	exit := exitMarker{path: filepath.Join(t.TempDir(), "exit_code")}
	signals, recorded := make(chan os.Signal, 1), make(chan string, 1)
	signals <- syscall.SIGTERM
	go stopOnSignal(slog.New(slog.DiscardHandler), signals, exit, func() { recorded <- exit.validationMode() })
	if got := <-recorded; got != "sanity" {
		t.Errorf("validation mode when the stop begins = %s, want the signal recorded", got)
	}
}

func TestGivesUpOnTheConfigurationAfterFiveAttempts(t *testing.T) {
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts++
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	sidecar, err := newSidecar(slog.New(slog.DiscardHandler),
		options{sidecarAddress: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	sidecar.interval = time.Millisecond
	if _, err := sidecar.etcdConfiguration(t.Context()); err == nil || attempts != 5 {
		t.Errorf("error %v after %d attempts", err, attempts)
	}
}
