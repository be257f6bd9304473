// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestTimeout bounds a request to the API server of a seed. The screen must not stand still because a seed does not
// answer.
const requestTimeout = 5 * time.Second

// PodDialer connects to a port of a pod.
type PodDialer interface {
	Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
}

// Seed is access to one seed.
type Seed struct {
	// Reader reads objects.
	Reader client.Reader
	// Dialer connects to pods.
	Dialer PodDialer
	// Logs reads logs of pods.
	Logs PodLogs
	// Config is how its API server is reached.
	Config *rest.Config
}

// Seeds are the seeds that the user has access to, by name.
type Seeds map[string]Seed

// OpenSeeds opens the seeds that the flags name, each as NAME=PATH of a kubeconfig.
func OpenSeeds(flags []string) (Seeds, error) {
	out := Seeds{}
	for _, flag := range flags {
		name, path, ok := strings.Cut(flag, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--seed-kubeconfig is %q; give the name of a seed and the path of its kubeconfig, "+
				"as in seed-a=/path", flag)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("failed to read the kubeconfig of seed %s: %w", name, err)
		}
		if out[name], err = openSeed(name, config); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func openSeed(name string, config *rest.Config) (Seed, error) { return open("seed "+name, config) }

// open opens a cluster. The name is what messages call it.
func open(name string, config *rest.Config) (Seed, error) {
	config.WarningHandler = rest.NoWarnings{}
	// A timeout of the client would end forwarded connections; what is asked through them has its own.
	forwarder, err := NewForwarder(name, rest.CopyConfig(config))
	if err != nil {
		return Seed{}, err
	}
	config.Timeout = requestTimeout
	reader, err := client.New(config, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return Seed{}, fmt.Errorf("failed to create a client for the %s: %w", name, err)
	}
	return Seed{Reader: reader, Dialer: forwarder, Logs: forwarder, Config: config}, nil
}
