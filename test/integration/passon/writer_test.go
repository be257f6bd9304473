// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/livecpm/livecpm/test/program"
)

const (
	// writeTimeout is how long a client waits for a write.
	writeTimeout = 2 * time.Second
	// writePause is between two writes of a client.
	writePause = 20 * time.Millisecond
	writeKeys  = "/registry/"
)

// writer is the clients of an etcd: one at each member. It remembers what was acknowledged.
type writer struct {
	clients []*clientv3.Client
	end     context.CancelFunc
	running sync.WaitGroup

	lock         sync.Mutex
	acknowledged []string
	last         time.Time
	longest      time.Duration
}

func newWriter(members ...*member) (*writer, error) {
	w := &writer{last: time.Now()}
	for _, m := range members {
		client, err := clientOf(m)
		if err != nil {
			w.close()
			return nil, err
		}
		w.clients = append(w.clients, client)
	}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	for i, client := range w.clients {
		w.running.Go(func() { w.write(ctx, i, client) })
	}
	return w, nil
}

func clientOf(m *member) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + m.client}, TLS: m.tls.client,
		Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("failed to make a client of %s: %w", m.name, err)
	}
	return client, nil
}

// write writes one key after the other, each of them once: whether one that failed has been written, nobody knows.
func (w *writer) write(ctx context.Context, id int, client *clientv3.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s%d/%06d", writeKeys, id, n)
		bounded, cancel := context.WithTimeout(ctx, writeTimeout)
		_, err := client.Put(bounded, key, key)
		cancel()
		if err == nil {
			w.acknowledge(key)
		}
		_ = program.Sleep(ctx, writePause)
	}
}

func (w *writer) acknowledge(key string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.acknowledged = append(w.acknowledged, key)
	w.longest = max(w.longest, time.Since(w.last))
	w.last = time.Now()
}

// seen returns how many writes were acknowledged, and the longest time without one.
func (w *writer) seen() (int, time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return len(w.acknowledged), w.longest
}

// lost ends the writing and returns those of the acknowledged writes that a member does not have.
func (w *writer) lost(ctx context.Context, m *member) ([]string, error) {
	w.end()
	w.running.Wait()
	client, err := clientOf(m)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	all, err := client.Get(ctx, writeKeys, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("failed to read from %s: %w", m.name, err)
	}
	has := map[string]bool{}
	for _, kv := range all.Kvs {
		has[string(kv.Key)] = string(kv.Value) == string(kv.Key)
	}
	var out []string
	for _, key := range w.acknowledged {
		if !has[key] {
			out = append(out, key)
		}
	}
	return out, nil
}

func (w *writer) close() {
	if w.end != nil {
		w.end()
	}
	for _, client := range w.clients {
		_ = client.Close()
	}
	w.running.Wait()
}
