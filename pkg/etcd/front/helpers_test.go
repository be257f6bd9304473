// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/etcd/front"
	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/test/program"
)

// runningFront is a front that a spec has started.
type runningFront struct {
	address, health, metrics string
	config                   *config.Config
	stop                     func()
	ended                    chan error
}

func freePort() int32 { return int32(program.FreePort()) }

func local(port int32) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// newConfig returns the configuration of a front of the members that does not stay long when it is told to end.
func newConfig(members ...*member) *config.Config {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	cfg := &config.Config{
		Etcd: "main", Port: freePort(),
		Health: config.Endpoint{Port: freePort()}, Metrics: config.Endpoint{Port: freePort()},
		TLS: config.TLS{
			CAFile:         write("ca.crt", certificates.authority),
			ServerCertFile: write("server.crt", certificates.server.CertificatePEM),
			ServerKeyFile:  write("server.key", certificates.server.PrivateKeyPEM),
			ClientCertFile: write("client.crt", certificates.client.CertificatePEM),
			ClientKeyFile:  write("client.key", certificates.client.PrivateKeyPEM),
		},
	}
	for i, m := range members {
		cfg.Members = append(cfg.Members, config.Member{Ordinal: i, Address: m.address, ServerName: memberHost})
	}
	config.SetDefaults(cfg)
	cfg.Limits.ShutdownDelay.Duration = time.Millisecond
	Expect(config.Validate(cfg)).To(BeEmpty())
	return cfg
}

func startFront(cfg *config.Config, clk clock.WithTicker) *runningFront {
	GinkgoHelper()
	f, err := front.New(cfg, logr.Discard(), clk)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningFront{address: local(cfg.Port), health: local(cfg.Health.Port), metrics: local(cfg.Metrics.Port),
		config: cfg, stop: cancel, ended: make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.ended <- f.Start(ctx)
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(func() <-chan struct{} { // the delays of the shutdown
			if fake, ok := clk.(interface{ Step(time.Duration) }); ok {
				fake.Step(time.Minute)
			}
			return over
		}).Should(BeClosed())
	})
	return r
}

// startReady starts a front and waits until it uses the members.
func startReady(members ...*member) *runningFront {
	GinkgoHelper()
	r := startFront(newConfig(members...), clock.RealClock{})
	r.uses(len(members))
	return r
}

// uses waits until so many members are eligible.
func (r *runningFront) uses(members int) {
	GinkgoHelper()
	Eventually(func() int {
		return strings.Count(r.get(r.metrics, "/metrics"), "\nlivecpm_front_member_eligible{")
	}).Should(BeNumerically(">=", members))
	Eventually(func() string { return r.get(r.metrics, "/metrics") }).Should(WithTransform(func(text string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "livecpm_front_member_eligible{") && strings.HasSuffix(line, " 1\n") {
				n++
			}
		}
		return n
	}, Equal(members)))
}

// says waits until the metrics have the line.
func (r *runningFront) says(line string) {
	GinkgoHelper()
	Eventually(func() string { return r.get(r.metrics, "/metrics") }).Should(ContainSubstring("\n" + line + "\n"))
}

// held waits until so many requests are held.
func (r *runningFront) held(requests int) {
	GinkgoHelper()
	r.says(fmt.Sprintf("livecpm_front_held_requests %d", requests))
}

func (*runningFront) get(address, path string) string {
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func (r *runningFront) readiness() int {
	response, err := http.Get("http://" + r.health + "/readyz")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// connect returns a plain connection to the front.
func (r *runningFront) connect() *grpc.ClientConn {
	GinkgoHelper()
	conn, err := grpc.NewClient("passthrough:///"+r.address,
		grpc.WithTransportCredentials(credentials.NewTLS(certificates.clientTLS())),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return conn
}

func (r *runningFront) kv() etcdserverpb.KVClient { return etcdserverpb.NewKVClient(r.connect()) }

// steering returns a Steering of the fronts.
func steering(fronts ...*runningFront) *front.Steering {
	var addresses []string
	for _, r := range fronts {
		addresses = append(addresses, r.address)
	}
	s := front.NewSteering(front.SteeringConfig{Addresses: addresses, ServerName: clientHost,
		TLS: certificates.clientTLS(), Log: logr.Discard()})
	DeferCleanup(s.Close)
	return s
}

// etcdClient returns a client of etcd that reaches any of the fronts, a different one with each connection if it can:
// that is what a Service does.
func etcdClient(fronts ...*runningFront) *clientv3.Client {
	GinkgoHelper()
	var next atomic.Int32
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + clientHost + ":2379"},
		TLS:       certificates.clientTLS(),
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var errs []error
			for range fronts {
				r := fronts[int(next.Add(1))%len(fronts)]
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
				if err == nil {
					return conn, nil
				}
				errs = append(errs, err)
			}
			return nil, errors.Join(errs...)
		})},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

// writers write until they are told to stop.
type writers struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	writes atomic.Int64
	errs   sync.Map
}

// write lets each client write transactions, one after the other.
func write(clients ...*clientv3.Client) *writers {
	w := &writers{}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	for i, client := range clients {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("/%d/%d", i, n)
				_, err := client.Txn(context.Background()).Then(clientv3.OpPut(key, "v")).Commit()
				if err != nil {
					w.errs.Store(key, err)
				}
				w.writes.Add(1)
			}
		})
	}
	DeferCleanup(func() {
		cancel()
		w.done.Wait()
	})
	return w
}

// more waits for so many further writes.
func (w *writers) more(writes int64) {
	GinkgoHelper()
	began := w.writes.Load()
	Eventually(w.writes.Load).Should(BeNumerically(">=", began+writes))
}

// end stops writing and returns how many writes there were, none of which may have failed.
func (w *writers) end() int64 {
	GinkgoHelper()
	w.stop()
	w.done.Wait()
	w.errs.Range(func(key, err any) bool {
		Fail(fmt.Sprintf("writing %s failed: %v", key, err))
		return false
	})
	return w.writes.Load()
}

// steppedClock is a clock that does not go by itself, and knows which times were asked for.
type steppedClock struct {
	*testclock.FakeClock

	mu    sync.Mutex
	asked map[time.Duration]bool
}

func newSteppedClock() *steppedClock {
	return &steppedClock{FakeClock: testclock.NewFakeClock(time.Now()), asked: map[time.Duration]bool{}}
}

// After implements clock.Clock.
func (c *steppedClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[d] = true
	return c.FakeClock.After(d)
}

// waitFor waits until somebody waits for the time.
func (c *steppedClock) waitFor(d time.Duration) {
	GinkgoHelper()
	Eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asked[d]
	}).Should(BeTrue())
}
