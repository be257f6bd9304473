// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotate gives an annotation of the botanist's Shoot a value in JSON; null takes it away. The patch has nothing but
// the annotation: the botanist's copy of the Shoot pretends another last operation.
func Annotate(ctx context.Context, b *Botanist, annotation, value string) error {
	info := b.Shoot.GetInfo()
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name}}
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, annotation, value))
	if err := b.GardenClient.Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to patch annotation %s of Shoot %s: %w", annotation, client.ObjectKeyFromObject(info),
			err)
	}
	return nil
}
