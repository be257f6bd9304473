// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"slices"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordKey is the DNSRecord of the seed's ingress domain, which the gardenlet makes and keeps up to date (upstream's
// newIngressDNSRecord). It is a wildcard, so it covers all names by which the other seed dials the relay.
var recordKey = client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: "seed-ingress"}

// CheckRecord returns an error unless the record of the seed's ingress domain leads to the ingress gateway. Without it
// the relays of the other seed would dial nothing, or something else. Of the values, Domain and Istio count.
func CheckRecord(ctx context.Context, seed client.Reader, values Values) error {
	record := &extensionsv1alpha1.DNSRecord{}
	if err := seed.Get(ctx, recordKey, record); err != nil {
		return fmt.Errorf("failed to get DNSRecord %s, by which the other seed finds the ingress gateway: %w",
			recordKey, err)
	}
	if covered := "*." + values.Domain; record.Spec.Name != covered {
		return fmt.Errorf("DNSRecord %s is for %s instead of %s: let the gardenlet reconcile the seed", recordKey,
			record.Spec.Name, covered)
	}
	if err := health.CheckExtensionObject(record); err != nil {
		return fmt.Errorf("DNSRecord %s of the seed's ingress domain is not ready: %w", recordKey, err)
	}

	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: values.Istio.Namespace, Name: values.Istio.ServiceName}
	if err := seed.Get(ctx, key, service); err != nil {
		return fmt.Errorf("failed to get Service %s of the ingress gateway: %w", key, err)
	}
	var addresses []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		addresses = append(addresses, ingress.Hostname, ingress.IP)
	}
	for _, value := range record.Spec.Values {
		if !slices.Contains(addresses, value) {
			return fmt.Errorf("DNSRecord %s leads to %s, which is no address of Service %s: let the gardenlet "+
				"reconcile the seed", recordKey, value, key)
		}
	}
	if len(record.Spec.Values) == 0 {
		return fmt.Errorf("DNSRecord %s leads nowhere: let the gardenlet reconcile the seed", recordKey)
	}
	return nil
}
