// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/node"
)

// images are the recipes of everything the seeds may run.
func images() ([]image.Recipe, error) {
	return node.BaseImages(), nil
}
