// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// Seed is the seed that is drained, as an operator sees it.
type Seed struct {
	// Garden is access to the garden.
	Garden client.Client
	// Name is its name.
	Name string
}

// Drain asks for the drain.
func (s Seed) Drain(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) { annotations[drain.AnnotationDrain] = "true" })
}

// Cancel takes the request for the drain back.
func (s Seed) Cancel(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) { delete(annotations, drain.AnnotationDrain) })
}

// KeepHibernated asks that hibernated shoots stay in the seed.
func (s Seed) KeepHibernated(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) {
		annotations[drain.AnnotationHibernated] = drain.HibernatedStay
	})
}

// LetHibernatedGo takes that back.
func (s Seed) LetHibernatedGo(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) { delete(annotations, drain.AnnotationHibernated) })
}

// PermitClassic permits that shoots which are not highly available leave classically.
func (s Seed) PermitClassic(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) {
		annotations[drain.AnnotationFallback] = drain.FallbackClassic
	})
}

// ForbidClassic takes that back.
func (s Seed) ForbidClassic(ctx context.Context) error {
	return s.annotate(ctx, func(annotations map[string]string) { delete(annotations, drain.AnnotationFallback) })
}

func (s Seed) annotate(ctx context.Context, change func(annotations map[string]string)) error {
	seed, err := s.get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFrom(seed.DeepCopy())
	if seed.Annotations == nil {
		seed.Annotations = map[string]string{}
	}
	change(seed.Annotations)
	if err := s.Garden.Patch(ctx, seed, patch); err != nil {
		return fmt.Errorf("failed to annotate Seed %s: %w", s.Name, err)
	}
	return nil
}

// Visible reports whether the scheduler sees the seed.
func (s Seed) Visible(ctx context.Context) (bool, error) {
	seed, err := s.get(ctx)
	return err == nil && seed.Spec.Settings != nil && seed.Spec.Settings.Scheduling != nil &&
		seed.Spec.Settings.Scheduling.Visible, err
}

// Reason returns the reason of the condition; it is empty if there is none.
func (s Seed) Reason(ctx context.Context) (string, error) {
	seed, err := s.get(ctx)
	if err != nil {
		return "", err
	}
	if condition := v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained); condition != nil {
		return condition.Reason, nil
	}
	return "", nil
}

// Table returns state and reason of each shoot.
func (s Seed) Table(ctx context.Context) (map[string]string, error) {
	rows, err := s.Rows(ctx)
	out := map[string]string{}
	for _, row := range rows {
		out[row.Name] = fmt.Sprintf("%s %s", row.State, row.Reason)
	}
	return out, err
}

// Ways returns how each shoot leaves.
func (s Seed) Ways(ctx context.Context) (map[string]drain.Way, error) {
	rows, err := s.Rows(ctx)
	out := map[string]drain.Way{}
	for _, row := range rows {
		out[row.Name] = row.Way
	}
	return out, err
}

// Rows returns the rows of the table.
func (s Seed) Rows(ctx context.Context) ([]drain.TableRow, error) {
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: drain.TableName(s.Name)}
	if err := s.Garden.Get(ctx, key, configMap); err != nil {
		return nil, fmt.Errorf("failed to get ConfigMap %s: %w", key, err)
	}
	table, err := drain.DecodeTable(configMap.Data[drain.TableKey])
	if err != nil {
		return nil, err
	}
	return table.Shoots, nil
}

// DescribeMoves returns a line for each shoot: how it left, and how long the drain took for it.
func DescribeMoves(rows []drain.TableRow) string {
	out := ""
	for _, row := range rows {
		begin, beginErr := time.Parse(time.RFC3339, row.StartedAt)
		end, endErr := time.Parse(time.RFC3339, row.EndedAt)
		took := "an unknown time"
		if beginErr == nil && endErr == nil {
			took = end.Sub(begin).String()
		}
		out += fmt.Sprintf("%s: %s, %s to %s in %s\n", row.Name, row.State, row.Way, row.Destination, took)
	}
	return out
}

func (s Seed) get(ctx context.Context) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := s.Garden.Get(ctx, client.ObjectKey{Name: s.Name}, seed); err != nil {
		return nil, fmt.Errorf("failed to get Seed %s: %w", s.Name, err)
	}
	return seed, nil
}
