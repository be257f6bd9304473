// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strconv"
	"time"

	extensionsv1alpha1helper "github.com/gardener/gardener/pkg/api/extensions/v1alpha1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// annotationFormerTTL is on a DNSRecord of the source whose TTL was shortened, and holds the former one in seconds.
const annotationFormerTTL = "livecpm.gardener.cloud/former-ttl-seconds"

// shortenTTL gives the records by which clients come to the shoot a short TTL. Step 6 waits until caches have forgotten
// the source's address, and they forget one sooner that has come with a short TTL since minutes.
//
// Nothing depends on it. The destination counts with the short TTL only after it has seen all name servers publish it,
// so a failure costs time only.
func (s *source) shortenTTL(ctx context.Context, m *migration.Migration) {
	if err := s.tryToShortenTTL(ctx, m); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to shorten the TTL of the DNS records; step 6 will wait for the one that they have")
	}
}

func (s *source) tryToShortenTTL(ctx context.Context, m *migration.Migration) error {
	peer, err := flows.PublishedWaits(ctx, s.GardenAPIReader, m.DestinationSeed)
	if err != nil {
		return err
	}
	short := seedfacts.ShortTTL(s.Timings.Waits(), peer)
	if short == 0 {
		return nil
	}
	records, err := s.dnsRecords(ctx, m.Shoot)
	if err != nil {
		return err
	}
	for i := range records {
		record := &records[i]
		if record.Name == m.Shoot.Name+"-"+ingressRecord || !s.canShorten(record, short) {
			continue
		}
		former := strconv.FormatInt(extensionsv1alpha1helper.GetDNSRecordTTL(record.Spec.TTL), 10)
		if err := s.changeTTL(ctx, m, record, func() {
			metav1.SetMetaDataAnnotation(&record.ObjectMeta, annotationFormerTTL, former)
			record.Spec.TTL = ptr.To(int64(short.Seconds()))
		}); err != nil {
			return err
		}
	}
	return nil
}

// canShorten reports whether the record can get the short TTL. One that has a longer one than the gardenlet here gives
// its records keeps it: the destination would not know of it. So does one whose controller is at work.
func (s *source) canShorten(record *extensionsv1alpha1.DNSRecord, short time.Duration) bool {
	ttl := time.Duration(extensionsv1alpha1helper.GetDNSRecordTTL(record.Spec.TTL)) * time.Second
	return settled(record) && ttl > short && ttl <= s.Timings.RecordTTL
}

// giveTTLsBack gives the records that are in this seed the TTL that they had before it was shortened.
func (s *source) giveTTLsBack(ctx context.Context, m *migration.Migration) error {
	records, err := s.dnsRecords(ctx, m.Shoot)
	if err != nil {
		return err
	}
	for i := range records {
		if err := s.giveTTLBack(ctx, m, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

// giveTTLBack gives one record the TTL that it had before it was shortened, if it was.
func (s *source) giveTTLBack(
	ctx context.Context, m *migration.Migration, record *extensionsv1alpha1.DNSRecord,
) error {
	value, shortened := record.Annotations[annotationFormerTTL]
	if !shortened {
		return nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds <= 0 {
		return fmt.Errorf("failed to give DNSRecord %s its TTL back: its annotation %s is %q, which is no number of "+
			"seconds; correct it, or remove it to keep the TTL of %d s", client.ObjectKeyFromObject(record),
			annotationFormerTTL, value, extensionsv1alpha1helper.GetDNSRecordTTL(record.Spec.TTL))
	}
	return s.changeTTL(ctx, m, record, func() {
		delete(record.Annotations, annotationFormerTTL)
		record.Spec.TTL = &seconds
	})
}

// changeTTL makes the change and has the record's controller carry it out. It fails if somebody has changed the record
// since it was read.
func (s *source) changeTTL(
	ctx context.Context, m *migration.Migration, record *extensionsv1alpha1.DNSRecord, change func(),
) error {
	patch := client.MergeFromWithOptions(record.DeepCopy(), client.MergeFromWithOptimisticLock{})
	change()
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, v1beta1constants.GardenerOperation,
		v1beta1constants.GardenerOperationReconcile)
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, v1beta1constants.GardenerTimestamp,
		m.Clock.Now().UTC().Format(time.RFC3339Nano))
	if err := s.SeedClientSet.Client().Patch(ctx, record, patch); err != nil {
		return fmt.Errorf("failed to change the TTL of DNSRecord %s: %w", client.ObjectKeyFromObject(record), err)
	}
	return nil
}

// refusedTTL reports whether the record's controller has failed on it since its TTL was shortened. Some providers take
// none that is so short.
func refusedTTL(record *extensionsv1alpha1.DNSRecord) bool {
	_, shortened := record.Annotations[annotationFormerTTL]
	last := record.Status.LastOperation
	return shortened && last != nil && (last.State == gardencorev1beta1.LastOperationStateError ||
		last.State == gardencorev1beta1.LastOperationStateFailed)
}
