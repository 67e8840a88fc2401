#!/usr/bin/perl
# Workload "perl-index": an interpreter that builds, thins and prints an inverted index.
#
# Three indexes one after the other: short strings by the hundred thousand, arrays
# that grow by reallocation, hashes that are rehashed, and each index dropped as a
# whole before the next.  Deterministic: its own generator, and run it with
# PERL_HASH_SEED=0 so that hash order is fixed too.
#
# Usage: PERL_HASH_SEED=0 perl index.pl [documents]
use strict;
use warnings;

my $n_documents = shift // 500;
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

# Builds an index over as many documents, prints its size, and drops it.
sub build_and_print {
    my ($n_documents, $words_per_document, @vocabulary) = @_;
    my (%index, $n_postings);
    for my $document (1 .. $n_documents) {
        my $text = join ' ', map { $vocabulary[ int(draw()**3 * @vocabulary) ] } 1 .. $words_per_document;
        my %count;
        $count{$_}++ for split / /, $text;
        for my $term (sort keys %count) {
            push @{ $index{$term} }, "$document:$count{$term}";
            $n_postings++;
        }
        thin_postings(\%index) if $document % 100 == 0;
    }
    my @lines    = map { "$_ " . join ',', @{ $index{$_} } } sort keys %index;
    my $checksum = 0;
    $checksum = ($checksum * 31 + length) % 1000000007 for @lines;
    printf "%d postings, %d terms, checksum %d\n", $n_postings, scalar @lines, $checksum;
    return;
}

# Many short documents, then few long ones, then a quiet end.
build_and_print($n_documents, 120, make_vocabulary(6000));
build_and_print(int($n_documents / 8), 700, make_vocabulary(12000));
build_and_print(int($n_documents / 2), 60, make_vocabulary(500));
