// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ingressRecord is the suffix of the name of the DNSRecord for what is exposed beside the kube-apiserver.
const ingressRecord = "ingress"

// shootDNSRecords are the suffixes of the names of the DNSRecords that point at the shoot's control plane.
var shootDNSRecords = []string{
	v1beta1constants.DNSRecordExternalName,
	v1beta1constants.DNSRecordInternalName,
	ingressRecord,
}

// releaseDNSRecords removes the DNSRecord objects of the source and leaves the records alone. Clients continue with the
// source's address until the destination overwrites it; there is no moment without a record and no second writer.
//
// The classic migration of a DNSRecord is up to its provider, and some delete the record then. Therefore the object
// goes without its controller: without finalizers a delete takes effect at once, before a controller can act on it.
func (s *source) releaseDNSRecords(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	left, err := s.dnsRecords(ctx, m.Shoot)
	if err != nil {
		return steps.Outcome{}, err
	}
	for i := range left {
		if refusedTTL(&left[i]) {
			if err := s.giveTTLBack(ctx, m, &left[i]); err != nil {
				return steps.Outcome{}, err
			}
		}
		if busy(&left[i]) {
			break
		}
		if err := s.releaseDNSRecord(ctx, &left[i]); err != nil {
			return steps.Outcome{}, err
		}
	}
	if len(left) > 0 {
		if left, err = s.dnsRecords(ctx, m.Shoot); err != nil {
			return steps.Outcome{}, err
		}
	}
	if waiting := waitingForDNSRecords(left); waiting != "" {
		return steps.Waiting(s.Timings.PollInterval, steps.ReasonReleasingDNSRecords, "%s", waiting), nil
	}

	// This changes nothing for the etcds of the source. Done here, it does not lengthen the six-member window.
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.PrepareRetirement(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to prepare the retirement of the source's etcd members: %w", err)
	}
	if steps.WithGap(m.Shoot) {
		// With one name in its configuration, a member that has lost its data begins a cluster of its own, also beside
		// a second voter. With two it restores nothing by itself. So the other one is named as late as that may be: in
		// the next step it joins, and by then the kubelet has brought the change into the pod.
		if err := etcds.WidenInitialCluster(ctx); err != nil {
			return steps.Outcome{}, fmt.Errorf("failed to name the members of the destination in the configuration of "+
				"the source's: %w", err)
		}
	}
	return steps.Done("The source no longer holds DNSRecords of the shoot; the records are unchanged"), nil
}

// waitingForDNSRecords returns what the step waits for, in view of the shoot's DNSRecord objects that were seen in the
// source. It is empty when the step is finished: none is left.
func waitingForDNSRecords(left []extensionsv1alpha1.DNSRecord) string {
	for i := range left {
		if busy(&left[i]) {
			return fmt.Sprintf("The controller of DNSRecord %s is still working on it", left[i].Name)
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("DNSRecord %s still exists", left[0].Name)
	}
	return ""
}

// busy reports whether the record's controller may be about to write the record.
func busy(record *extensionsv1alpha1.DNSRecord) bool {
	return record.DeletionTimestamp == nil && !settled(record)
}

// dnsRecords returns those of the shoot's DNSRecord objects that exist.
func (s *source) dnsRecords(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) ([]extensionsv1alpha1.DNSRecord, error) {
	var out []extensionsv1alpha1.DNSRecord
	for _, suffix := range shootDNSRecords {
		key := client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
			Name: shoot.Name + "-" + suffix}
		record := extensionsv1alpha1.DNSRecord{}
		found, err := controlplane.Exists(ctx, s.SeedClientSet.Client(), key, &record)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, record)
		}
	}
	return out, nil
}

// releaseDNSRecord removes one object whose controller is not at work.
func (s *source) releaseDNSRecord(ctx context.Context, record *extensionsv1alpha1.DNSRecord) error {
	seedClient, key := s.SeedClientSet.Client(), client.ObjectKeyFromObject(record)
	patch := client.MergeFromWithOptions(record.DeepCopy(), client.MergeFromWithOptimisticLock{})
	// A seed's admission webhook requires it before an extension resource may be deleted.
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
	record.Finalizers = nil
	if err := seedClient.Patch(ctx, record, patch); err != nil {
		return fmt.Errorf("failed to remove the finalizers of DNSRecord %s: %w", key, err)
	}

	// The precondition makes sure that no controller has put a finalizer back: with one, the delete would be carried
	// out by the controller, which would delete the record.
	err := seedClient.Delete(ctx, record,
		client.Preconditions{UID: &record.UID, ResourceVersion: ptr.To(record.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete DNSRecord %s: %w", key, err)
	}
	return nil
}

func settled(record *extensionsv1alpha1.DNSRecord) bool {
	if _, ok := record.Annotations[v1beta1constants.GardenerOperation]; ok {
		return false
	}
	lastOperation := record.Status.LastOperation
	return lastOperation != nil && lastOperation.State == gardencorev1beta1.LastOperationStateSucceeded &&
		record.Status.ObservedGeneration == record.Generation
}
