// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerapiserver "github.com/gardener/gardener/pkg/apiserver"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
)

// registerAPI tells the kube-apiserver where Gardener's API groups are served. There is no pod behind the Service: the
// kube-apiserver routes to the address in the EndpointSlice, past the cluster IP that nothing in the garden serves.
func (g *Garden) registerAPI(ctx context.Context, c client.Client) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: apiServer, Namespace: metav1.NamespaceSystem}}
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, c, service, func() error {
		service.Spec.Type = corev1.ServiceTypeClusterIP
		service.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: apiServerPort,
			TargetPort: intstr.FromInt32(apiServerPort), Protocol: corev1.ProtocolTCP}}
		return nil
	}); err != nil {
		return fmt.Errorf("failed to apply Service %q: %w", client.ObjectKeyFromObject(service), err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: apiServer, Namespace: metav1.NamespaceSystem},
	}
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, c, slice, func() error {
		name, protocol, number, ready := "https", corev1.ProtocolTCP, int32(apiServerPort), true
		metav1.SetMetaDataLabel(&slice.ObjectMeta, discoveryv1.LabelServiceName, service.Name)
		metav1.SetMetaDataLabel(&slice.ObjectMeta, discoveryv1.LabelManagedBy, "landscape")
		slice.AddressType = discoveryv1.AddressTypeIPv4
		slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &number}}
		slice.Endpoints = []discoveryv1.Endpoint{
			{Addresses: []string{g.Config.Garden.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		}
		return nil
	}); err != nil {
		return fmt.Errorf("failed to apply EndpointSlice %q: %w", client.ObjectKeyFromObject(slice), err)
	}

	port := int32(apiServerPort)
	names := make([]string, 0, len(gardenerapiserver.AllGardenerAPIGroupVersions))
	for _, gv := range gardenerapiserver.AllGardenerAPIGroupVersions {
		api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group}}
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, c, api, func() error {
			api.Spec = apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 10000, VersionPriority: 20,
				CABundle: g.CA.CertPEM,
				Service: &apiregistrationv1.ServiceReference{Name: service.Name, Namespace: service.Namespace,
					Port: &port},
			}
			return nil
		}); err != nil {
			return fmt.Errorf("failed to apply APIService %q: %w", api.Name, err)
		}
		names = append(names, api.Name)
	}

	return g.await(ctx, time.Minute, "Gardener's API to be served", func(ctx context.Context) error {
		for _, name := range names {
			api := &apiregistrationv1.APIService{}
			if err := c.Get(ctx, client.ObjectKey{Name: name}, api); err != nil {
				return err
			}
			if err := health.CheckAPIService(api); err != nil {
				return fmt.Errorf("APIService %q: %w", name, err)
			}
		}
		return c.List(ctx, &gardencorev1beta1.ShootList{})
	})
}

func (g *Garden) waitForProject(ctx context.Context, c client.Client, name string) error {
	return g.await(ctx, time.Minute, "project "+name, func(ctx context.Context) error {
		project := &gardencorev1beta1.Project{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, project); err != nil {
			return err
		}
		if project.Status.Phase != gardencorev1beta1.ProjectReady {
			return fmt.Errorf("project is in phase %q", project.Status.Phase)
		}
		return nil
	})
}

// await repeats a check until it passes.
func (g *Garden) await(
	ctx context.Context, timeout time.Duration, what string, check func(context.Context) error,
) error {
	g.Report("waiting for %s", what)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to wait for %s (logs: %s, %s): %w", what,
				g.Processes.LogFile(apiServer), g.Processes.LogFile(controllerManager), err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// probe asks a server that the garden's authority has signed for, from inside the garden's network.
func (g *Garden) probe(url string) func(context.Context) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(g.CA.CertPEM)
	httpClient := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		// A socket belongs to the network namespace of the thread that makes it.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			var conn net.Conn
			err := g.namespaces().Do(func() error {
				var err error
				conn, err = net.DialTimeout(network, address, 2*time.Second)
				return err
			})
			return conn, err
		},
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("answers with status %s", strconv.Itoa(response.StatusCode))
		}
		return nil
	}
}
