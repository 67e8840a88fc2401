#!/usr/bin/perl
# Workload "perl-index": an interpreter that builds, thins and prints an inverted index.
#
# Words, postings and whole documents come and go: short strings by the hundred
# thousand, arrays that grow by reallocation, a hash that is rehashed, and a
# phase at the end that holds almost everything at once.  Deterministic: its own
# generator, and run it with PERL_HASH_SEED=0 so that hash order is fixed too.
#
# Usage: PERL_HASH_SEED=0 perl index.pl [documents]
use strict;
use warnings;

my $n_documents = shift // 1500;
my $seed        = 12345;

sub draw {
    $seed = ($seed * 1103515245 + 12345) % 2147483648;
    return $seed / 2147483648;
}

sub make_vocabulary {
    my ($n_words) = @_;
    my @syllables = qw(ka lo mi ren tas or el vin du sha pro ti con ver al ma net qui);
    return map {
        join '', map { $syllables[ int(draw() * @syllables) ] } 1 .. 2 + int(draw() * 4)
    } 1 .. $n_words;
}

sub thin_postings {
    my ($index) = @_;
    for my $term (sort keys %$index) {
        my $list = $index->{$term};
        splice @$list, 0, int(@$list / 3) if @$list > 50;
        delete $index->{$term} if @$list == 1;
    }
    return;
}

my @vocabulary = make_vocabulary(6000);
my (%index, $n_postings);
for my $document (1 .. $n_documents) {
    my $text = join ' ', map { $vocabulary[ int(draw()**3 * @vocabulary) ] } 1 .. 120;
    my %count;
    $count{$_}++ for split / /, $text;
    for my $term (sort keys %count) {
        push @{ $index{$term} }, "$document:$count{$term}";
        $n_postings++;
    }
    thin_postings(\%index) if $document % 200 == 0;
}

my $checksum = 0;
my @lines = map { "$_ " . join ',', @{ $index{$_} } } sort keys %index;
for my $line (@lines) {
    $checksum = ($checksum * 31 + length $line) % 1000000007;
}
printf "%d postings, %d terms, checksum %d\n", $n_postings, scalar @lines, $checksum;
