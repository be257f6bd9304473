// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// once sends no request again. client-go would do so when the server asks for it (Retry-After), and with a read whose
// connection breaks, and its caller never hears of it. What fails at the first try has failed.
type once struct{ rest.Interface }

func (o once) Verb(verb string) *rest.Request { return o.Interface.Verb(verb).MaxRetries(0) }
func (o once) Post() *rest.Request            { return o.Interface.Post().MaxRetries(0) }
func (o once) Put() *rest.Request             { return o.Interface.Put().MaxRetries(0) }
func (o once) Get() *rest.Request             { return o.Interface.Get().MaxRetries(0) }
func (o once) Delete() *rest.Request          { return o.Interface.Delete().MaxRetries(0) }

func (o once) Patch(patch types.PatchType) *rest.Request {
	return o.Interface.Patch(patch).MaxRetries(0)
}

// client is what a client of the load speaks with: the APIs that it uses, over the same connections. It sends no
// request again.
type client struct {
	core   corev1client.CoreV1Interface
	leases coordinationv1client.CoordinationV1Interface
	// dynamic is for what has no types here: the probe's own resource, its definition, and the aggregated API.
	dynamic dynamic.Interface
}

func newClient(base *rest.Config, d *dialer) (*client, error) {
	config := clientConfig(base, d)
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for the core API: %w", err)
	}
	leases, err := coordinationv1client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for Leases: %w", err)
	}
	untyped, err := newUntypedClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for custom resources: %w", err)
	}
	return &client{
		core:    corev1client.New(once{core.RESTClient()}),
		leases:  coordinationv1client.New(once{leases.RESTClient()}),
		dynamic: dynamic.New(once{untyped}),
	}, nil
}

// newUntypedClient returns what client-go's dynamic client is made of, which names each path by itself.
func newUntypedClient(config *rest.Config, connections *http.Client) (rest.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion, config.APIPath = nil, "/apis"
	return rest.UnversionedRESTClientForConfigAndClient(config, connections)
}
