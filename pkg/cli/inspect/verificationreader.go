// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
)

// hashAttempts is how often the hashes are asked for if a compaction comes between.
const hashAttempts = 3

// VerificationReader reads what the verification judges. What the user may not read is unknown.
type VerificationReader struct {
	// Garden is the garden.
	Garden *access.Garden
	// Seeds are the seeds that the user has access to.
	Seeds access.Seeds
	// Members asks the etcd members in them.
	Members *Members
	// Lookup returns the addresses of a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Baseline is what was recorded before the migration; nil if nothing was.
	Baseline *Baseline
	// Clock is the clock, Zone the time zone in which checks name points in time; nil for UTC.
	Clock clock.PassiveClock
	Zone  *time.Location
}

// Source returns the seed that the shoot came from as far as that can be known: the one that was recorded, or the only
// other one that there is access to.
func (r VerificationReader) Source(destination string) string {
	if r.Baseline != nil {
		return r.Baseline.Seed
	}
	found := ""
	for name := range r.Seeds {
		switch {
		case name == destination:
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}

// Read reads the input for the shoot, which came from the source.
func (r VerificationReader) Read(ctx context.Context, shoot *gardencorev1beta1.Shoot, source string) VerificationInput {
	in := VerificationInput{Now: metav1.NewTime(r.Clock.Now()), Shoot: shoot, Source: source,
		Unknown: map[preflight.Name]string{}}
	destination := ptr.Deref(shoot.Status.SeedName, "")
	if r.Baseline != nil {
		in.ClusterIDs = r.Baseline.ClusterIDs
	}

	r.readBackup(ctx, &in, destination)
	r.readSource(ctx, &in)
	if _, ok := r.Seeds[destination]; !ok {
		for _, name := range []preflight.Name{CheckEtcdMembers, CheckEtcdHash, CheckSecrets, CheckDNS} {
			in.Unknown[name] = fmt.Sprintf("seed %s: give --seed-kubeconfig %s=PATH", destination, destination)
		}
		return in
	}
	r.readEtcds(ctx, &in, destination)
	r.readSecrets(ctx, &in, destination)
	r.readRecords(ctx, &in, destination)
	return in
}

func (r VerificationReader) readBackup(ctx context.Context, in *VerificationInput, destination string) {
	seeds := &gardencorev1beta1.Seed{}
	if err := r.Garden.Client.Get(ctx, client.ObjectKey{Name: destination}, seeds); err != nil {
		in.Unknown[CheckBackup] = fmt.Sprintf("failed to get Seed %s: %v", destination, err)
		return
	}
	in.DestinationBucket = string(seeds.UID)
	name, err := gardenerutils.GenerateBackupEntryName(v1beta1helper.ControlPlaneNamespaceForShoot(in.Shoot),
		in.Shoot.Status.UID, in.Shoot.UID)
	if err != nil {
		in.Unknown[CheckBackup] = err.Error()
		return
	}
	in.BackupEntry = &gardencorev1beta1.BackupEntry{}
	if err := r.Garden.Client.Get(ctx, client.ObjectKey{Namespace: in.Shoot.Namespace, Name: name},
		in.BackupEntry); err != nil {
		in.Unknown[CheckBackup] = fmt.Sprintf("failed to get BackupEntry %s/%s: %v", in.Shoot.Namespace, name, err)
	}
}

func (r VerificationReader) readSource(ctx context.Context, in *VerificationInput) {
	if in.Source == "" {
		in.Unknown[CheckSourceEmpty] = "the Shoot does not say which seed it came from; give the seed with --source, " +
			"and its kubeconfig"
		return
	}
	seed, ok := r.Seeds[in.Source]
	if !ok {
		in.Unknown[CheckSourceEmpty] = fmt.Sprintf("seed %s: give --seed-kubeconfig %s=PATH", in.Source, in.Source)
		return
	}
	config := rest.CopyConfig(seed.Config)
	// Some lists of a large seed take longer than a look at one shoot.
	config.Timeout, config.QPS = time.Minute, -1
	objects, err := inventory.List(ctx, config, "seed "+in.Source,
		v1beta1helper.ControlPlaneNamespaceForShoot(in.Shoot))
	in.LeftInSource = inventory.Names(objects)
	if err != nil && len(in.LeftInSource) == 0 {
		in.Unknown[CheckSourceEmpty] = err.Error()
	}
}

func (r VerificationReader) readEtcds(ctx context.Context, in *VerificationInput, destination string) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(in.Shoot)
	failed := func(err error) {
		in.Unknown[CheckEtcdMembers], in.Unknown[CheckEtcdHash] = err.Error(), err.Error()
	}
	found := r.Members.Ask(ctx, namespace, destination)
	if len(found) != len(etcdRoles) {
		failed(fmt.Errorf("seed %s has Etcds of %d roles instead of %d", destination, len(found), len(etcdRoles)))
		return
	}
	for _, etcd := range found {
		if etcd.Err != nil {
			failed(etcd.Err)
			return
		}
		cluster, err := r.Members.Cluster(ctx, namespace, etcd.Role, destination)
		if err != nil {
			failed(err)
			return
		}
		in.Etcds = append(in.Etcds, Hashes(ctx, cluster, naming.EtcdName(etcd.Role), etcd))
	}
}

// Hashes asks all members of the etcd for the hash of their data at a revision that all of them have.
func Hashes(ctx context.Context, cluster etcdclient.Reader, name string, etcd Etcd) EtcdData {
	out := EtcdData{Name: name, ClusterID: fmt.Sprintf("%x", etcd.Inspection.ClusterID)}
	asked := preflight.EtcdViewOf(&druidcorev1alpha1.Etcd{}, etcd.Inspection, etcd.Err)
	for i, member := range etcd.Inspection.Members {
		out.Members = append(out.Members,
			MemberData{Name: member.String(), Learner: member.Learner, Problem: asked.Members[i].Problem})
		if member.StatusError == nil && (out.Revision == 0 || member.Status.Revision < out.Revision) {
			out.Revision = member.Status.Revision
		}
	}
	for range hashAttempts {
		compactions := map[int64]bool{}
		for i, member := range etcd.Inspection.Members {
			to := &out.Members[i]
			to.HashProblem = ""
			var err error
			if to.Hash, to.Compacted, err = cluster.HashKV(ctx, member.Member, out.Revision); err != nil {
				to.HashProblem = err.Error()
			}
			compactions[to.Compacted] = true
		}
		if len(compactions) == 1 {
			break
		}
	}
	return out
}

func (r VerificationReader) readSecrets(ctx context.Context, in *VerificationInput, destination string) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(in.Shoot)
	var err error
	if in.Secrets, err = secretsIn(ctx, r.Seeds[destination].Reader, namespace); err != nil {
		in.Unknown[CheckSecrets] = err.Error()
		return
	}
	if r.Baseline != nil {
		in.Kept, in.KeptBefore = r.Baseline.Secrets, true
		in.KeptIn = "the baseline of " + view.Options{Zone: r.Zone}.Moment(r.Baseline.Recorded)
		return
	}
	// A seed whose gardenlet keeps no ShootStates has none after a migration; who may not read them is as if there were
	// none.
	state := &gardencorev1beta1.ShootState{}
	if err := r.Garden.Client.Get(ctx, client.ObjectKeyFromObject(in.Shoot), state); err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			in.Unknown[CheckSecrets] = fmt.Sprintf("failed to get ShootState %s: %v",
				client.ObjectKeyFromObject(in.Shoot), err)
		}
		return
	}
	if in.Kept, err = secretsOf(state); err != nil {
		in.Unknown[CheckSecrets] = err.Error()
		return
	}
	in.KeptIn = "the ShootState"
}

func (r VerificationReader) readRecords(ctx context.Context, in *VerificationInput, destination string) {
	found := ControlPlanes(ctx, r.Seeds, in.Shoot, destination)[0]
	if found.Unknown != "" {
		in.Unknown[CheckDNS] = found.Unknown
		return
	}
	for _, record := range found.Records {
		out := Resolution{Name: record.Name}
		var errs []error
		for _, value := range record.Values {
			if _, err := netip.ParseAddr(value); err == nil {
				out.Values = append(out.Values, value)
				continue
			}
			// The load balancer has a name.
			addresses, err := r.Lookup(ctx, value)
			errs = append(errs, err)
			out.Values = append(out.Values, texts(addresses)...)
		}
		addresses, err := r.Lookup(ctx, record.Name)
		out.Resolved = texts(addresses)
		if err := errors.Join(append(errs, err)...); err != nil {
			out.Problem = err.Error()
		}
		in.Records = append(in.Records, out)
	}
}

func texts(addresses []netip.Addr) []string {
	var out []string
	for _, address := range addresses {
		out = append(out, address.Unmap().String())
	}
	return out
}

// Record reads what is to be compared with after a migration.
func (r VerificationReader) Record(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Baseline, error) {
	name, namespace := ptr.Deref(shoot.Status.SeedName, ""), v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	out := Baseline{Namespace: shoot.Namespace, Shoot: shoot.Name, Seed: name, Recorded: r.Clock.Now().UTC(),
		ClusterIDs: map[string]string{}, Members: map[string][]string{}}
	if ptr.Deref(shoot.Spec.SeedName, "") != name {
		//nolint:staticcheck // It begins with a kind.
		return out, fmt.Errorf("Shoot %s is on its way to seed %s: record the baseline before a migration",
			client.ObjectKeyFromObject(shoot), ptr.Deref(shoot.Spec.SeedName, ""))
	}
	seed, ok := r.Seeds[name]
	if !ok {
		return out, fmt.Errorf("the shoot is in seed %s; give --seed-kubeconfig %s=PATH", name, name)
	}
	var err error
	if out.Secrets, err = secretsIn(ctx, seed.Reader, namespace); err != nil {
		return out, err
	}
	for _, etcd := range r.Members.Ask(ctx, namespace, name) {
		if etcd.Err != nil {
			return out, etcd.Err
		}
		name := naming.EtcdName(etcd.Role)
		out.ClusterIDs[name] = fmt.Sprintf("%x", etcd.Inspection.ClusterID)
		for _, member := range ticketMembers(etcd.Inspection) {
			out.Members[name] = append(out.Members[name], member.Name)
		}
	}
	return out, nil
}
