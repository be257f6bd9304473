// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Program kube-network-policies judges the connections of a node's pods by the NetworkPolicies of the cluster. The
// judgement is that of sigs.k8s.io/kube-network-policies, unchanged. Its own program cannot be used, because it takes
// its kubeconfig from a pod's service account only, and a node of the landscape runs it as a daemon.
//
// It reads packets from a queue of the kernel. The landscape makes the rules that put packets there
// (test/landscape/node): the library would do it with nftables, whose queue statement this kernel may lack. Each of its
// attempts has to fail, and says so in the log (noTable).
//
// No packet may be lost on the way to it: a name server's answer would come after five seconds, and a connection after
// one, three or seven. The queue keeps its packets (noTable), and the kernel has room for them (growBuffers).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

// runtimeTimeout is how long the runtime's socket may take to appear.
const runtimeTimeout = time.Minute

// queueBuffer is how many bytes of packets may wait until the library reads them: more than the 1024 packets that it
// lets wait in the queue. The kernel's default is 208 KiB, which is about 270 packets.
const queueBuffer = 4 << 20

// noTable is the name of the library's table in nftables. Whenever a pod or a policy changes, the library makes its
// table, with a chain in it. Where the rest fails, the kernel takes the chain out again, and with a chain go all packets
// that wait in a queue (nf_queue_nf_hook_drop of Linux; kubernetes-sigs/kube-network-policies#402 is the same where
// nothing fails). So the first command has to fail: the name is longer than the kernel permits (NFT_TABLE_MAXNAMELEN).
var noTable = strings.Repeat("kube-network-policies.", 12)

type options struct {
	kubeconfig, node, metrics, runtime string
	queue                              int
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig of the cluster")
	flag.StringVar(&o.node, "node", "", "the name of the node")
	flag.StringVar(&o.metrics, "metrics", "127.0.0.1:9080", "the address on which metrics are served")
	flag.StringVar(&o.runtime, "runtime", "/var/run/nri/nri.sock", "the socket on which the runtime tells of new pods")
	flag.IntVar(&o.queue, "queue", 100, "the number of the kernel's queue")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns an error whenever judging ends although nobody has asked for it: the queue then has no reader, the kernel
// drops what comes into it, and whoever watches the process learns why.
func run(ctx context.Context, o options) error {
	if o.kubeconfig == "" || o.node == "" {
		return errors.New("--kubeconfig and --node are needed")
	}
	// The runtime tells the address of a pod before its containers start. The API server tells it later, and the library
	// takes a pod without a known address for no pod, which may do everything.
	if err := awaitRuntime(ctx, o.runtime); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("failed to read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	controller, err := networkpolicy.NewController(client, factory.Networking().V1().NetworkPolicies(),
		factory.Core().V1().Namespaces(), factory.Core().V1().Pods(), nil, nil, nil, nil,
		networkpolicy.Config{QueueID: o.queue, NodeName: o.node, NFTableName: noTable})
	if err != nil {
		return fmt.Errorf("failed to make controller: %w", err)
	}

	ended := make(chan error, 3)
	server := &http.Server{Addr: o.metrics, Handler: promhttp.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { ended <- fmt.Errorf("failed to serve metrics: %w", server.ListenAndServe()) }()
	factory.Start(ctx.Done())
	go func() {
		if err := growBuffers(ctx); err != nil {
			ended <- fmt.Errorf("failed to make room for packets: %w", err)
		}
	}()
	go func() {
		if err := controller.Run(ctx); err != nil {
			ended <- fmt.Errorf("failed to judge packets: %w", err)
			return
		}
		ended <- errors.New("failed to judge packets: ended without an error")
	}()
	select {
	case err := <-ended:
		if ctx.Err() != nil {
			return nil
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// awaitRuntime waits for the runtime's socket.
func awaitRuntime(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the runtime does not tell of pods: no socket %s", socket)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// growBuffers gives the sockets on which packets come a buffer of queueBuffer, as soon as the library has opened them.
// It offers no setting for that. It returns when the context ends, or when that fails.
func growBuffers(ctx context.Context) error {
	for {
		if err := growBuffersOnce(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func growBuffersOnce() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return err
		}
		// A file may be closed at any time, and another one may have its number then.
		if err := growBuffer(fd); err != nil && !errors.Is(err, unix.EBADF) && !errors.Is(err, unix.ENOTSOCK) {
			return err
		}
	}
	return nil
}

// growBuffer gives the file a buffer of queueBuffer if packets may come on it.
func growBuffer(fd int) error {
	for option, wanted := range map[int]int{unix.SO_DOMAIN: unix.AF_NETLINK, unix.SO_PROTOCOL: unix.NETLINK_NETFILTER} {
		if value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || value != wanted {
			return err
		}
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || size >= queueBuffer {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueBuffer)
}
