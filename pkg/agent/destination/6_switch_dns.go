// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// What has to be remembered of the switch of DNS is on the shoot's namespace in the destination, so that an agent that
// takes over resumes the wait where the other one stopped.
const (
	// annotationFormerTTL is for how long caches may keep the source's address after the switch; see cachedFor.
	annotationFormerTTL = "livecpm.gardener.cloud/former-dns-ttl"
	// annotationMovedAt is when all name servers were first seen to lead to the destination's address.
	annotationMovedAt = "livecpm.gardener.cloud/dns-moved-at"
)

// dnsSwitch is what the shoot's namespace in the destination says about the switch.
type dnsSwitch struct {
	// moved reports whether all name servers were seen to lead to the destination's address, at movedAt.
	moved   bool
	movedAt time.Time
	// measured reports whether it was found out before the switch how long caches may keep the source's address, which
	// is formerTTL.
	measured  bool
	formerTTL time.Duration
}

// dnsSwitchOf reads the annotations. What is malformed counts as missing.
func dnsSwitchOf(annotations map[string]string) dnsSwitch {
	movedAt, movedErr := time.Parse(time.RFC3339, annotations[annotationMovedAt])
	ttl, ttlErr := time.ParseDuration(annotations[annotationFormerTTL])
	return dnsSwitch{moved: movedErr == nil, movedAt: movedAt, measured: ttlErr == nil, formerTTL: ttl}
}

// switchDNS points the shoot's records at the destination and is done when no cache can hold the former address.
func (d *destination) switchDNS(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	namespace := &corev1.Namespace{}
	name := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	if !dnsSwitchOf(namespace.Annotations).moved {
		if err := d.moveRecords(ctx, m, namespace); err != nil {
			return steps.Outcome{}, err
		}
	}

	seen := dnsSwitchOf(namespace.Annotations)
	if !seen.moved || !seen.measured {
		return steps.Outcome{},
			fmt.Errorf("failed to find out how long caches keep the former DNS records: annotation %s or %s of "+
				"namespace %s is missing or malformed", annotationFormerTTL, annotationMovedAt, name)
	}
	return waitForCaches(m.Clock.Now(), seen.movedAt, seen.formerTTL, d.Timings.DNSMargin), nil
}

// moveRecords changes the records, waits until all name servers lead to the destination's address, and remembers both
// when that was and the TTL of before.
func (d *destination) moveRecords(ctx context.Context, m *migration.Migration, namespace *corev1.Namespace) error {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return err
	}
	records := recordsOf(b)
	if !dnsSwitchOf(namespace.Annotations).measured {
		ttl, err := d.cachedFor(ctx, m, namespace, records)
		if err != nil {
			return err
		}
		if err := d.remember(ctx, namespace, annotationFormerTTL, ttl.String()); err != nil {
			return err
		}
	}

	if err := flows.Run(ctx, m, steps.ReasonSwitchingDNSRecords, d.dnsGraph(m, b)); err != nil {
		return err
	}
	if err := d.waitForRecords(ctx, m, records, b.APIServerAddress); err != nil {
		return err
	}
	return d.remember(ctx, namespace, annotationMovedAt, m.Clock.Now().UTC().Format(time.RFC3339))
}

// waitForRecords waits until all name servers lead to the destination's address, and says meanwhile which do not.
func (d *destination) waitForRecords(
	ctx context.Context, m *migration.Migration, records []dnsRecord, address string,
) error {
	waiting := "Waiting until all name servers lead to " + address
	if err := m.Report(ctx, steps.ReasonWaitingForDNS, waiting); err != nil {
		return err
	}
	silence := dns.NewSilence(m.Clock, d.Timings.NameServerPatience)
	target := dns.NewTarget(d.NameServers, silence, address)
	if err := d.untilAnswered(ctx, m, waiting, func(ctx context.Context) error {
		for _, record := range records {
			if err := target.Reached(ctx, record.name); err != nil {
				return &recordError{record.name, err}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if silent := silence.Borne(); len(silent) > 0 {
		m.Log.Info("Name servers do not answer, and are not waited for any longer", "servers", silent)
	}
	return nil
}

// recordError says why a record does not lead to the destination yet.
type recordError struct {
	name  string
	cause error
}

// Error names the record, for whoever reads the log.
func (e *recordError) Error() string {
	return fmt.Sprintf("DNS record %s has not moved yet: %v", e.name, e.cause)
}

// Unwrap returns the cause, which is all that the condition shows.
func (e *recordError) Unwrap() error { return e.cause }

// untilAnswered repeats what asks name servers until it succeeds, and says meanwhile what they answer. It takes longer
// than name servers are waited for that do not answer.
func (d *destination) untilAnswered(
	ctx context.Context, m *migration.Migration, waiting string, look func(context.Context) error,
) error {
	return retry.UntilTimeout(ctx, d.Timings.PollInterval, d.Timings.RolloutTimeout+d.Timings.NameServerPatience,
		func(ctx context.Context) (bool, error) {
			err := look(ctx)
			if err == nil {
				return retry.Ok()
			}
			shown := err
			if of := (*recordError)(nil); errors.As(err, &of) {
				shown = of.cause
			}
			// The text is the same as long as the same servers lag behind, so that this does not write each time.
			if err := m.Report(ctx, steps.ReasonWaitingForDNS, waiting+": "+shown.Error()); err != nil {
				return retry.SevereError(err)
			}
			return retry.MinorError(err)
		})
}

func waitForCaches(now, movedAt time.Time, ttl, margin time.Duration) steps.Outcome {
	wait := waits.ForCaches(movedAt, ttl, margin)
	if left := wait.Left(now); left > 0 {
		return steps.Waiting(min(left, 10*time.Second), steps.ReasonWaitingForDNS, "%s", wait)
	}
	return steps.Done("DNS points at the destination and the former records have left all caches")
}

// dnsRecord is a name under which clients reach the shoot's kube-apiserver.
type dnsRecord struct {
	name string
	// ttl is what this seed gives the record.
	ttl time.Duration
}

func recordsOf(b *botanist.Botanist) []dnsRecord {
	var (
		records []dnsRecord
		ttl     = flows.RecordTTL(b.Config)
	)
	if b.NeedsExternalDNS() {
		records = append(records,
			dnsRecord{name: v1beta1helper.GetAPIServerDomain(*b.Shoot.ExternalClusterDomain), ttl: ttl})
	}
	if b.NeedsInternalDNS() {
		records = append(records,
			dnsRecord{name: v1beta1helper.GetAPIServerDomain(*b.Shoot.InternalClusterDomain), ttl: ttl})
	}
	return records
}

// formerTTL asks the name servers for the TTL of the records as long as they name the source. A name server that is not
// authoritative tells what is left of it, and the source may have shortened it, so it is never taken for less than what
// the gardenlets of both seeds give their records.
func (d *destination) formerTTL(
	ctx context.Context, m *migration.Migration, records []dnsRecord,
) (time.Duration, error) {
	var (
		silence = dns.NewSilence(m.Clock, d.Timings.NameServerPatience)
		ttl     time.Duration
	)
	before, err := d.ttlBefore(ctx, m, records)
	if err != nil {
		return 0, err
	}
	const asking = "Asking the name servers for the TTL of the records"
	err = d.untilAnswered(ctx, m, asking, func(ctx context.Context) error {
		for _, record := range records {
			told, err := dns.TTL(ctx, d.NameServers, silence, record.name)
			if err != nil {
				return fmt.Errorf("the TTL of DNS record %s is not known: %w", record.name, err)
			}
			ttl = max(ttl, before, told)
		}
		return nil
	})
	return ttl, err
}

func (d *destination) remember(ctx context.Context, namespace *corev1.Namespace, key, value string) error {
	patch := client.MergeFrom(namespace.DeepCopy())
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, key, value)
	if err := d.SeedClientSet.Client().Patch(ctx, namespace, patch); err != nil {
		return fmt.Errorf("failed to annotate namespace %s with %s: %w", namespace.Name, key, err)
	}
	return nil
}

// forgetDNS removes what was remembered of the switch and of the clients that left the source after it.
func (d *destination) forgetDNS(ctx context.Context, name string) error {
	return d.forget(ctx, name, annotationFormerTTL, annotationMovedAt, annotationShortTTLSince, annotationClientsDrain)
}

// forget removes what remember has written to the shoot's namespace.
func (d *destination) forget(ctx context.Context, name string, keys ...string) error {
	namespace := &corev1.Namespace{}
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	patch := client.MergeFrom(namespace.DeepCopy())
	for _, key := range keys {
		delete(namespace.Annotations, key)
	}
	if err := d.SeedClientSet.Client().Patch(ctx, namespace, patch); err != nil {
		return fmt.Errorf("failed to remove annotations %v from namespace %s: %w", keys, name, err)
	}
	return nil
}

func (d *destination) dnsGraph(m *migration.Migration, b *botanist.Botanist) *flow.Graph {
	var (
		g       = flow.NewGraph("switch of the DNS records")
		timeout = d.Timings.RolloutTimeout
		service = d.addWayOfClients(g, b)
		serving = g.Add(flow.Task{
			Name: "Waiting until the kube-apiserver serves through the gateway of the destination",
			Fn: func(ctx context.Context) error {
				return d.untilServing(ctx, m, promptly(m, func(ctx context.Context) (time.Duration, error) {
					return d.probeTimed(ctx, m.Clock, b)
				}))
			},
			Dependencies: flow.NewTaskIDs(service),
		})
	)

	// Both overwrite what the source's DNSRecords have left behind; for a client there is one address or the other.
	_ = g.Add(flow.Task{
		Name: "Deploying the external DNS record",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployOrDestroyExternalDNSRecord(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(serving),
	})
	_ = g.Add(flow.Task{
		Name: "Deploying the internal DNS record",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployOrDestroyInternalDNSRecord(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(serving),
	})
	return g
}
