// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import (
	"fmt"
	"math/big"
)

// Sample returns so many of the mutations. The commit, a hexadecimal number, says with which of them the sample begins,
// so that one commit always gets the same, and all of them have their turn in the course of many commits. Mutations
// that follow each other are in the same few packages, so a sample costs little. It fails if the number is below one,
// or if the commit is not hexadecimal.
func Sample(all []Mutation, size int, commit string) ([]Mutation, error) {
	if size < 1 {
		return nil, fmt.Errorf("a sample of %d mutations proves nothing: ask for one at least", size)
	}
	number, ok := new(big.Int).SetString(commit, 16)
	if !ok || number.Sign() < 0 {
		return nil, fmt.Errorf("failed to read the commit %q: give its hash, as git rev-parse HEAD does", commit)
	}
	if size >= len(all) {
		return all, nil
	}
	first := int(new(big.Int).Mod(number, big.NewInt(int64(len(all)))).Int64())
	chosen := make([]Mutation, 0, size)
	for i := range size {
		chosen = append(chosen, all[(first+i)%len(all)])
	}
	return chosen, nil
}
