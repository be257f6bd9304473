// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"time"

	gardenkubernetes "github.com/gardener/gardener/pkg/client/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// scheme knows whatever a garden or a seed holds, so that no spec finds out on the landscape what it cannot read.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(gardenkubernetes.AddGardenSchemeToScheme(scheme))
	utilruntime.Must(gardenkubernetes.AddSeedSchemeToScheme(scheme))
}

// Cluster is access to the garden, a seed, or the cloud that machines are in.
type Cluster struct {
	// Name is the cluster's name in the landscape.
	Name string
	// REST is what the clients were made of.
	REST   *rest.Config
	Client client.WithWatch
	Kube   kubernetes.Interface
}

// Connect returns access to a cluster of the landscape.
func Connect(landscape *config.Config, name string) (*Cluster, error) {
	return ConnectWithin(landscape, name, 0)
}

// ConnectWithin returns access to a cluster of the landscape by clients that give up a request after the timeout. They
// are of no use for what lasts longer, such as watches and port-forwards. 0 stands for no timeout.
func ConnectWithin(landscape *config.Config, name string, timeout time.Duration) (*Cluster, error) {
	restConfig, err := apply.RESTConfig(landscape.Kubeconfig(name))
	if err != nil {
		return nil, err
	}
	// The API servers are on this machine: no client needs to spare them.
	restConfig.QPS = -1
	restConfig.WarningHandler = rest.NoWarnings{}
	restConfig.Timeout = timeout
	c, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", name, err)
	}
	kube, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", name, err)
	}
	return &Cluster{Name: name, REST: restConfig, Client: c, Kube: kube}, nil
}

// ConnectGarden returns access to the landscape's garden.
func ConnectGarden(landscape *config.Config) (*Cluster, error) {
	return Connect(landscape, landscape.Garden.Name)
}
