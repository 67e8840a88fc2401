"""Which of exgen's libraries a program may be linked with: can it have a second thread?"""
