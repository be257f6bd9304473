// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// PlanReader reads what a plan is made from. What the user may not read is left to the agents, except the seeds.
type PlanReader struct {
	// Garden is the garden.
	Garden *access.Garden
	// Seeds are the seeds that the user has access to.
	Seeds access.Seeds
	// Members asks the etcd members in the seeds; nil to be content with what etcd-druid reports.
	Members *Members
	// NameServers are asked for the TTL of the shoot's DNS records; nil to ask none.
	NameServers dns.NameServers
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Read reads the input of a plan for the shoot. The seeds of the shoot and the given one are looked at if there is
// access.
func (r PlanReader) Read(ctx context.Context, shoot *gardencorev1beta1.Shoot, destination string) (PlanInput, error) {
	in := PlanInput{Now: metav1.NewTime(r.Clock.Now()), Shoot: shoot, Unreadable: map[preflight.Name]string{}}

	var err error
	if in.Seeds, err = r.Garden.Seeds(ctx); err != nil {
		return in, err
	}
	source := ""
	if shoot.Status.SeedName != nil {
		source = *shoot.Status.SeedName
	}
	names := []string{source}
	for _, candidate := range in.Seeds {
		if candidate.Name != source && (candidate.Name == destination || destination == "") {
			names = append(names, candidate.Name)
		}
	}
	in.Views = ControlPlanes(ctx, r.Seeds, shoot, names...)
	if in.seen(source) != nil && r.Members != nil {
		r.etcds(ctx, &in, source)
	}

	for name, read := range map[preflight.Name]func(context.Context, *PlanInput) error{
		preflight.RegionDistance: r.regions,
		preflight.Bastions:       r.bastions,
		preflight.NotASeed:       r.managedSeeds,
		preflight.ExposureClass:  r.exposureClass,
		CheckFreeCapacity:        r.usage,
		CheckGatePolicies:        r.policies,
	} {
		if err := read(ctx, &in); err != nil {
			in.Unreadable[name] = err.Error()
		}
	}
	in.TTLs = ttls(ctx, r.NameServers, r.Clock, shoot)
	if past, err := r.Garden.History(ctx); err == nil {
		in.Past = past.Records
	}
	return in, nil
}

// etcds asks the members in the source as the agents do. All etcds must be asked: a plan that judges one and forgets
// the other would be worse than one that leaves both to the agents.
func (r PlanReader) etcds(ctx context.Context, in *PlanInput, source string) {
	var views []preflight.EtcdView
	for _, etcd := range r.Members.Ask(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(in.Shoot), source) {
		resource := etcd.Resources[source]
		if resource == nil || !etcd.Reached {
			in.EtcdsUnasked = fmt.Sprint(etcd.Err)
			return
		}
		views = append(views, preflight.EtcdViewOf(resource, etcd.Inspection, etcd.Err))
	}
	in.Etcds = views
}

func (r PlanReader) regions(ctx context.Context, in *PlanInput) error {
	if in.Shoot.Spec.CloudProfile == nil {
		return nil
	}
	configMaps, err := gardenerutils.GetRegionConfigMaps(ctx, r.Garden.Client, v1beta1constants.GardenNamespace,
		in.Shoot.Spec.CloudProfile.Name)
	for _, configMap := range configMaps {
		in.Regions = append(in.Regions, *configMap)
	}
	return err
}

func (r PlanReader) bastions(ctx context.Context, in *PlanInput) error {
	list := &operationsv1alpha1.BastionList{}
	if err := r.Garden.Client.List(ctx, list, client.InNamespace(in.Shoot.Namespace)); err != nil {
		return err
	}
	for _, bastion := range list.Items {
		if bastion.Spec.ShootRef.Name == in.Shoot.Name {
			in.Bastions = append(in.Bastions, bastion.Name)
		}
	}
	return nil
}

// managedSeeds looks in the garden namespace only: there are none elsewhere.
func (r PlanReader) managedSeeds(ctx context.Context, in *PlanInput) error {
	if in.Shoot.Namespace != v1beta1constants.GardenNamespace {
		return nil
	}
	list := &seedmanagementv1alpha1.ManagedSeedList{}
	if err := r.Garden.Client.List(ctx, list, client.InNamespace(in.Shoot.Namespace)); err != nil {
		return err
	}
	for _, managedSeed := range list.Items {
		if managedSeed.Spec.Shoot != nil && managedSeed.Spec.Shoot.Name == in.Shoot.Name {
			in.ManagedSeeds = append(in.ManagedSeeds, managedSeed.Name)
		}
	}
	return nil
}

func (r PlanReader) exposureClass(ctx context.Context, in *PlanInput) error {
	if in.Shoot.Spec.ExposureClassName == nil {
		return nil
	}
	var err error
	in.ExposureClass, err = preflight.ReadExposureClass(ctx, r.Garden.Client, in.Shoot)
	return err
}

func (r PlanReader) usage(ctx context.Context, in *PlanInput) error {
	list := &gardencorev1beta1.ShootList{}
	if err := r.Garden.Client.List(ctx, list); err != nil {
		return err
	}
	var shoots []*gardencorev1beta1.Shoot
	for i := range list.Items {
		shoots = append(shoots, &list.Items[i])
	}
	in.ShootsPerSeed = v1beta1helper.CalculateSeedUsage(shoots)
	return nil
}

func (r PlanReader) policies(ctx context.Context, in *PlanInput) error {
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}},
	} {
		kind := fmt.Sprintf("%T", object)[len("*v1."):]
		switch err := r.Garden.Client.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case apierrors.IsNotFound(err):
			in.MissingPolicies = append(in.MissingPolicies, kind+" "+gate.PolicyName)
		case err != nil:
			return err
		}
	}
	return nil
}
