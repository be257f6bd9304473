// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// InstallationReader reads what an installation is judged by. What the user may not read is unknown; only the seeds
// have to be readable.
type InstallationReader struct {
	// Garden is the garden, Seeds are the seeds that the user has access to.
	Garden *access.Garden
	Seeds  access.Seeds
	// Credentials are what the garden is asked for to get into managed seeds; none if it is not asked.
	Credentials access.Credentials
	// Plugin is this program.
	Plugin view.Program
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Read reads everything about the named seeds, or about all if none is named.
func (r InstallationReader) Read(ctx context.Context, names ...string) (InstallationInput, error) {
	in := InstallationInput{Now: r.Clock.Now(), Looks: map[string]SeedLook{}}
	var err error
	if in.Versions, err = ReadVersions(ctx, r.Garden, r.Plugin); err != nil {
		return in, err
	}
	seeds, err := r.Garden.Seeds(ctx)
	if err != nil {
		return in, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(seeds, func(seed gardencorev1beta1.Seed) bool { return seed.Name == name }) {
			return in, fmt.Errorf("there is no Seed %s", name)
		}
	}
	in.Seeds = slices.DeleteFunc(seeds, func(seed gardencorev1beta1.Seed) bool {
		return len(names) > 0 && !slices.Contains(names, seed.Name)
	})
	r.gate(ctx, &in)
	in.Lease, in.LeaseErr = lease(ctx, r.Garden.Client, configv1alpha1.DefaultControllerManagerLeaseName)
	in.Permissions = r.permissions(ctx, in.Seeds)
	for _, seed := range in.Seeds {
		if open, ok := r.Seeds[seed.Name]; ok {
			in.Looks[seed.Name] = lookAround(ctx, open.Reader)
		}
	}
	return in, nil
}

// gate reads the policy and its binding, and tries whether it is in force for whatever is in flight.
func (r InstallationReader) gate(ctx context.Context, in *InstallationInput) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		switch err := r.Garden.Client.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, object); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			in.PolicyErr = fmt.Errorf("failed to get %T %s: %w", object, gate.PolicyName, err)
			continue
		}
		switch object {
		case policy:
			in.Policy = policy
		default:
			in.Binding = binding
		}
	}
	shoots, err := r.Garden.AllShoots(ctx)
	if err != nil {
		in.ShootsErr = err
		return
	}
	proof := gate.New(r.Garden.Client, r.Garden.Client)
	for i := range shoots {
		if _, _, between := steps.Seeds(&shoots[i]); between && steps.Requested(&shoots[i]) {
			in.Proofs = append(in.Proofs, GateProof{Shoot: shoots[i].Namespace + "/" + shoots[i].Name,
				Err: proof.Verify(ctx, &shoots[i])})
		}
	}
}

// lease returns the lease in the namespace garden; nil without an error if there is none.
func lease(ctx context.Context, reader client.Reader, name string) (*coordinationv1.Lease, error) {
	out := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: configv1alpha1.DefaultLeaseNamespace, Name: name}
	switch err := reader.Get(ctx, key, out); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to get Lease %s: %w", key, err)
	}
	return out, nil
}

// lookAround looks at what livecpm has, and needs, in the seed.
func lookAround(ctx context.Context, reader client.Reader) SeedLook {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var (
		out      SeedLook
		rules    = &monitoringv1.PrometheusRuleList{}
		monitors = &monitoringv1.ServiceMonitorList{}
		agents   = &corev1.PodList{}
		relays   = &corev1.PodList{}
		gateways = &corev1.PodList{}
		service  = &corev1.Service{}
	)
	if out.Lease, out.Err = lease(ctx, reader, configv1alpha1.DefaultLeaseName); out.Err != nil {
		return out
	}
	own := client.MatchingLabels{v1beta1constants.LabelApp: "livecpm"}
	garden := client.InNamespace(v1beta1constants.GardenNamespace)
	ingress := client.InNamespace(v1beta1constants.DefaultSNIIngressNamespace)
	for _, read := range []struct {
		list    client.ObjectList
		options []client.ListOption
	}{
		{rules, []client.ListOption{garden, own}},
		{monitors, []client.ListOption{garden, own}},
		{agents, []client.ListOption{garden, own}},
		{relays, []client.ListOption{client.MatchingLabels{v1beta1constants.LabelApp: "livecpm-relay"}}},
		{gateways, []client.ListOption{ingress,
			client.MatchingLabels{v1beta1constants.LabelApp: "istio-ingressgateway"}}},
	} {
		if err := reader.List(ctx, read.list, read.options...); err != nil {
			out.Err = fmt.Errorf("failed to list %T: %w", read.list, err)
			return out
		}
	}
	key := client.ObjectKey{Namespace: v1beta1constants.DefaultSNIIngressNamespace,
		Name: v1beta1constants.DefaultSNIIngressServiceName}
	if err := reader.Get(ctx, key, service); client.IgnoreNotFound(err) != nil {
		out.Err = fmt.Errorf("failed to get Service %s: %w", key, err)
		return out
	}
	out.Rules, out.Monitors = len(rules.Items), len(monitors.Items)
	out.Stuck = stuck(append(agents.Items, relays.Items...))
	out.GatewayPods = len(gateways.Items)
	for i := range gateways.Items {
		if health.IsPodReady(&gateways.Items[i]) {
			out.GatewayReady++
		}
	}
	for _, address := range service.Status.LoadBalancer.Ingress {
		out.Gateway = address.IP + address.Hostname
	}
	return out
}

// stuck names the pods with a container that does not start.
func stuck(pods []corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if waiting := container.State.Waiting; waiting != nil &&
				!slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason) {
				out = append(out, fmt.Sprintf("%s/%s (%s, image %s)", pod.Namespace, pod.Name, waiting.Reason,
					container.Image))
				break
			}
		}
	}
	slices.Sort(out)
	return out
}
