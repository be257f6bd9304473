// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import "fmt"

// Count writes a number of things as people read it. The noun is that of one thing; more than one get an s.
func Count[N int | int32 | int64](number N, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}
