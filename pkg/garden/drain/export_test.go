// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// Ahead is ahead, for tests.
type Ahead = ahead

// Keep is keep, for tests.
func (a ahead) Keep(shoot *gardencorev1beta1.Shoot) { a.keep(shoot) }

// Merge is merge, for tests.
func (a ahead) Merge(shoots []gardencorev1beta1.Shoot) { a.merge(shoots) }
