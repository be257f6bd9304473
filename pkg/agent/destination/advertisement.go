// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

// What a shoot with workers needs beyond one without: clients inside of it go to the kube-apiserver by an address that
// an apiserver-proxy on each node serves, and the kube-apiserver comes to nodes, pods and services through the VPN.
//
// Each seed has an address of its own. A kube-apiserver publishes its address in the shoot (Service
// default/kubernetes), to which all clients there are led at random as soon as there are two. So the destination's
// takes the source's address (step 4) until a second apiserver-proxy serves its own one on all nodes (step 8). Then it
// takes its own, the regular apiserver-proxy follows, and the second one goes. At every moment an address is published,
// and every published address is served (overlap.KeepEndpoints).
//
// The VPN server of the destination gets a client of its own in the shoot (step 4), before any webhook is called from
// there. The regular one stays with the source until its key is replaced by the destination's (step 8).

// annotationAdvertisedAddress is on the shoot's namespace in the destination as long as its kube-apiserver publishes
// the source's address, and says which. An agent that takes over must not have it publish another one before the nodes
// serve that.
const annotationAdvertisedAddress = "livecpm.gardener.cloud/advertised-address"

// withWorkers reports whether the botanist's shoot has workers.
func withWorkers(b *botanist.Botanist) bool {
	return b.Operation != nil && b.Shoot != nil && !b.Shoot.IsWorkerless
}

// advertisement is the address that the destination's kube-apiserver publishes inside of the shoot.
type advertisement struct {
	// address is the source's; empty if the destination publishes its own.
	address string
	// own is that of the destination. It is known once the service of the kube-apiserver is there.
	own string
}

// apply makes the botanist deploy what depends on the address with the one that is to be published.
func (a *advertisement) apply(b *botanist.Botanist) {
	if a == nil || a.address == "" {
		return
	}
	if a.own == "" {
		a.own = b.APIServerClusterIP
	}
	b.APIServerClusterIP = a.address
}

// moves reports whether the address changes at all. Seeds may have services of the same address, as far as it shows in
// the shoot.
func (a *advertisement) moves() bool { return !sameAddress(a.own, a.address) }

// sameAddress compares addresses that may be written in different ways.
func sameAddress(a, b string) bool {
	return net.ParseIP(a) != nil && net.ParseIP(a).Equal(net.ParseIP(b))
}

// readAdvertisement reads what is published from the shoot's namespace.
func (d *destination) readAdvertisement(ctx context.Context, name string) (*advertisement, error) {
	namespace := &corev1.Namespace{}
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	return &advertisement{address: namespace.Annotations[annotationAdvertisedAddress]}, nil
}

// learnAdvertisement asks the source's kube-apiserver under which address it is known inside of the shoot, and
// remembers it.
func (d *destination) learnAdvertisement(ctx context.Context, b *botanist.Botanist, a *advertisement) error {
	if a.address != "" {
		return nil
	}
	if !b.ShootUsesDNS() {
		return errors.New("failed to learn the address of the kube-apiserver inside of the shoot: without an " +
			"internal and an external domain the nodes have no apiserver-proxy, " +
			"and clients inside of the shoot would lose the kube-apiserver; migrate classically")
	}
	shoot, err := d.throughDNS(b)
	if err != nil {
		return err
	}
	address, err := publishedAddress(ctx, shoot)
	if err != nil {
		return err
	}

	namespace := &corev1.Namespace{}
	name := b.Shoot.ControlPlaneNamespace
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	if err := d.remember(ctx, namespace, annotationAdvertisedAddress, address); err != nil {
		return err
	}
	a.address = address
	return nil
}

// throughDNS returns access to the shoot by its name, which leads to the source until step 6.
func (d *destination) throughDNS(b *botanist.Botanist) (client.Client, error) {
	config, err := d.shootConfig(b)
	if err != nil {
		return nil, err
	}
	return newShootClient(config)
}

// forgetAdvertisement makes every later deployment of the kube-apiserver publish the destination's own address.
func (d *destination) forgetAdvertisement(ctx context.Context, name string) error {
	return d.forget(ctx, name, annotationAdvertisedAddress)
}

// publishedAddress returns the one address behind the Service default/kubernetes.
func publishedAddress(ctx context.Context, shoot client.Client) (string, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := shoot.List(ctx, list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return "", fmt.Errorf("failed to read the EndpointSlices of Service default/kubernetes: %w", err)
	}
	addresses := sets.New[string]()
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			addresses.Insert(endpoint.Addresses...)
		}
	}
	if addresses.Len() != 1 {
		return "",
			fmt.Errorf("the Service default/kubernetes of the shoot has the addresses %v instead of one: stale ones "+
				"expire within a minute; if they do not, find out which kube-apiservers use its etcd",
				sets.List(addresses))
	}
	return sets.List(addresses)[0], nil
}

// checkPublished returns an error unless the address is the only one behind the Service default/kubernetes.
func checkPublished(ctx context.Context, shoot client.Client, address string) error {
	published, err := publishedAddress(ctx, shoot)
	if err != nil {
		return err
	}
	if !sameAddress(published, address) {
		return fmt.Errorf("the kube-apiserver is published as %s inside of the shoot instead of %s", published, address)
	}
	return nil
}
