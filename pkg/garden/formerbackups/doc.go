// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package formerbackups gives agents the way to the backups that a migration leaves behind in the bucket of the other
// seed: a BackupEntry in the garden that is assigned to the agent's seed and names the other seed's bucket. Where
// Gardener's SeedRestriction is in force, no seed may create such an entry in the course of a live migration, for it
// opens a bucket that is not the seed's. Here it is created for one that is asked for at its time only, and never for
// the bucket in use.
package formerbackups
