// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// Check is check, for tests.
func (f *Shoots) Check(shoots ...gardencorev1beta1.Shoot) error { return f.check(shoots) }

// Made returns those that are there for the test only.
func (f *Shoots) Made() []*shoot.Shoot { return f.made }
