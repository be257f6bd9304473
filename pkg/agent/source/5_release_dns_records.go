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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// shootDNSRecords are the suffixes of the names of the DNSRecords that point at the shoot's control plane. The records
// of the exposure between the seeds are in the same namespace and stay.
var shootDNSRecords = []string{
	v1beta1constants.DNSRecordExternalName,
	v1beta1constants.DNSRecordInternalName,
	"ingress",
}

// releaseDNSRecords removes the DNSRecord objects of the source and leaves the records alone. Clients continue with the
// source's address until the destination overwrites it; there is no moment without a record and no second writer.
//
// The classic migration of a DNSRecord is up to its provider, and some delete the record then. Therefore the object
// goes without its controller: without finalizers a delete takes effect at once, before a controller can act on it.
func (s *source) releaseDNSRecords(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

	for _, suffix := range shootDNSRecords {
		record := &extensionsv1alpha1.DNSRecord{
			ObjectMeta: metav1.ObjectMeta{Name: m.Shoot.Name + "-" + suffix, Namespace: namespace},
		}
		busy, err := s.releaseDNSRecord(ctx, record)
		if err != nil {
			return steps.Outcome{}, err
		}
		if busy {
			return steps.Waiting(s.Timings.PollInterval, steps.ReasonReleasingDNSRecords,
				"DNSRecord %s is being worked on by its controller", record.Name), nil
		}
	}

	// Nothing changes for the etcds of the source by it. Done here, it does not lengthen the time with six members.
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.PrepareRetirement(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to prepare the retirement of the source's etcd members: %w", err)
	}
	return steps.Done("The source no longer holds DNSRecords of the shoot; the records are unchanged"), nil
}

// releaseDNSRecord removes one object. It reports true when the record's controller is at work: a write of it may be on
// the way.
func (s *source) releaseDNSRecord(ctx context.Context, record *extensionsv1alpha1.DNSRecord) (bool, error) {
	seedClient := s.SeedClientSet.Client()
	key := client.ObjectKeyFromObject(record)

	if err := seedClient.Get(ctx, key, record); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("failed to read DNSRecord %s: %w", key, err)
	}
	if record.DeletionTimestamp == nil && !settled(record) {
		return true, nil
	}

	patch := client.MergeFromWithOptions(record.DeepCopy(), client.MergeFromWithOptimisticLock{})
	// A seed's admission webhook wants to see it before an extension resource may go.
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
	record.Finalizers = nil
	if err := seedClient.Patch(ctx, record, patch); err != nil {
		return false, fmt.Errorf("failed to remove the finalizers of DNSRecord %s: %w", key, err)
	}

	// The precondition makes sure that no controller has put a finalizer back: with one, the delete would be carried
	// out by the controller, which would delete the record.
	err := seedClient.Delete(ctx, record,
		client.Preconditions{UID: &record.UID, ResourceVersion: ptr.To(record.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("failed to delete DNSRecord %s: %w", key, err)
	}
	return false, nil
}

func settled(record *extensionsv1alpha1.DNSRecord) bool {
	if _, ok := record.Annotations[v1beta1constants.GardenerOperation]; ok {
		return false
	}
	lastOperation := record.Status.LastOperation
	return lastOperation != nil && lastOperation.State == gardencorev1beta1.LastOperationStateSucceeded &&
		record.Status.ObservedGeneration == record.Generation
}
