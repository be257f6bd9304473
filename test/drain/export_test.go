// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

// Check is check, for tests.
func (f *Fleet) Check(shoots ...gardencorev1beta1.Shoot) error { return f.check(shoots) }
