// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/gardener/gardener/pkg/utils/flow"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What the tests look at from outside.
var (
	WaitForCaches      = waitForCaches
	ProbeKubeAPIServer = probeKubeAPIServer

	AnnotationFormerTTL = annotationFormerTTL
	AnnotationMovedAt   = annotationMovedAt
)

// SwitchDNS runs this part of the step.
func SwitchDNS(ctx context.Context, deps *operation.Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{deps: deps}).switchDNS(ctx, m)
}

// ScaleEtcd scales an Etcd.
func ScaleEtcd(
	ctx context.Context, deps *operation.Deps, m *migration.Migration, etcdRole string, members int32,
) error {
	return (&destination{deps: deps}).scaleEtcd(ctx, m, etcdRole, members)
}

// LastOperationForCompletion tells how the botanist of the last step is made.
func LastOperationForCompletion(
	ctx context.Context, deps *operation.Deps, shoot *gardencorev1beta1.Shoot,
) (gardencorev1beta1.LastOperationType, error) {
	return (&destination{deps: deps}).lastOperationForCompletion(ctx, shoot)
}

// Graphs returns the flows of the destination by the situation that they are for.
func Graphs(deps *operation.Deps, m *migration.Migration) map[string]*flow.Graph {
	d := &destination{deps: deps}
	b := &botanist.Botanist{}
	return map[string]*flow.Graph{
		"prepare with backup":    d.prepareGraph(m, b, true),
		"prepare without backup": d.prepareGraph(m, b, false),
		"kube-apiserver":         d.kubeAPIServerGraph(b, &advertisement{}),
		"kube-apiserver with workers": d.kubeAPIServerGraph(&botanist.Botanist{Operation: &gardeneroperation.Operation{
			Shoot: &shootpkg.Shoot{},
		}}, &advertisement{}),
		"overlap": d.overlapGraph(b, b, nil, &advertisement{address: "240.1.2.3", own: "240.4.5.6"}),
		"settle":  d.settleGraph(b),
		"complete with workers": d.completeGraph(m, b,
			facts{workers: true, published: &advertisement{address: "240.1.2.3"}}),
		"dns": d.dnsGraph(m, b),
		"complete with all": d.completeGraph(m, b,
			facts{hasBackup: true, hasManagedIssuer: true, keepsShootState: true, wantsObservability: true}),
		"abort":                 d.abortGraph(m, b, abortFacts{hasBackup: true}),
		"abort at its end":      d.abortGraph(m, b, abortFacts{terminating: true}),
		"complete with nothing": d.completeGraph(m, b, facts{}),
	}
}

// PublishedAddress reads the address of the kube-apiserver in a shoot.
var PublishedAddress = publishedAddress

// CheckPublished compares it.
var CheckPublished = checkPublished

// Moves reports whether the address inside of the shoot changes.
func Moves(address, own string) bool { return (&advertisement{address: address, own: own}).moves() }

// AnnotationAdvertisedAddress is where it is remembered.
const AnnotationAdvertisedAddress = annotationAdvertisedAddress

// Advertise applies the address to the botanist and returns the botanist's own.
func Advertise(b *botanist.Botanist, address string, times int) string {
	a := &advertisement{address: address}
	for range times {
		a.apply(b)
	}
	return a.own
}

// LearnAdvertisement returns the address that the destination's kube-apiserver is to publish.
func LearnAdvertisement(ctx context.Context, deps *operation.Deps, b *botanist.Botanist) (string, error) {
	d := &destination{deps: deps}
	a, err := d.readAdvertisement(ctx, b.Shoot.ControlPlaneNamespace)
	if err != nil {
		return "", err
	}
	err = d.learnAdvertisement(ctx, b, a)
	return a.address, err
}

// ForgetAdvertisement removes what was remembered.
func ForgetAdvertisement(ctx context.Context, deps *operation.Deps, namespace string) error {
	return (&destination{deps: deps}).forgetAdvertisement(ctx, namespace)
}

// CheckTunnel looks whether the nodes can be reached.
func CheckTunnel(ctx context.Context, c client.Client, r rest.Interface) error {
	return checkTunnel(ctx, &shootAccess{client: c, rest: r})
}

// MoveVPN runs the part of the last step in which the regular VPN client takes the place of the temporary one.
func MoveVPN(
	ctx context.Context, deps *operation.Deps, b, plain *botanist.Botanist, c client.Client, r rest.Interface,
) error {
	d := &destination{deps: deps,
		access: func(*botanist.Botanist) (*shootAccess, error) { return &shootAccess{client: c, rest: r}, nil }}
	g := flow.NewGraph("test")
	d.addOverlap(g, b, plain, nil, &advertisement{address: "240.1.2.3", own: "240.1.2.3"}, flow.NewTaskIDs())
	return g.Compile().Run(ctx, flow.Opts{})
}

// MoveEtcd runs the action.
func MoveEtcd(ctx context.Context, deps *operation.Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{deps: deps}).moveEtcd(ctx, m)
}

// ShrinkEtcd runs this part of the step.
func ShrinkEtcd(ctx context.Context, deps *operation.Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{deps: deps}).shrinkEtcd(ctx, m)
}

// WaitUnlessRestarted waits as the step in which the kube-apiserver starts does.
func WaitUnlessRestarted(
	ctx context.Context, deps *operation.Deps, namespace string, interval time.Duration,
	rolledOut func(context.Context) error,
) error {
	return (&destination{deps: deps}).waitUnlessRestarted(ctx, namespace, interval, rolledOut)
}

// UntilServing waits as the switch of DNS does.
func UntilServing(
	ctx context.Context, deps *operation.Deps, m *migration.Migration, serves func(context.Context) error,
) error {
	return (&destination{deps: deps}).untilServing(ctx, m, serves)
}

// PatientDeps returns what the botanist of the step in which the kube-apiserver starts is made of.
func PatientDeps(ctx context.Context, deps *operation.Deps, m *migration.Migration) (*operation.Deps, error) {
	return (&destination{deps: deps}).patientDeps(ctx, m)
}
